"""Names as Kubernetes and vendors allow them, for properties: whatever is legal is written and read back equal."""

from hypothesis import strategies as st

UIDS = st.uuids().map(str)
DNS_LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
SUBDOMAINS = st.lists(DNS_LABELS, min_size=1, max_size=4).map(".".join).filter(lambda name: len(name) <= 253)
LABEL_VALUES = st.from_regex(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?", fullmatch=True)
JOB_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)
JOB_IDS = st.builds("{}/{}".format, DNS_LABELS, SUBDOMAINS)
MIGRATION_KEYS = st.builds("{}/{}".format, JOB_IDS, UIDS)
CARDS = st.one_of(
    st.integers(0, 15).map(str),
    UIDS.map("GPU-{}".format),
    UIDS.map("MIG-{}".format),
    st.builds("MIG-GPU-{}/{}/{}".format, UIDS, st.integers(0, 15), st.integers(0, 15)),  # of drivers before 470
    st.builds("GPU-{}::{}".format, UIDS, st.integers(0, 9)),  # replicas of a card that is shared by time
    st.builds("/dev/dri/card{}".format, st.integers(0, 15)),
    st.builds("nvidia{}".format, st.integers(0, 15)),
    st.text(st.characters(codec="ascii", exclude_characters=",", exclude_categories=["Cc"]), min_size=1, max_size=9),
)
