"""The store: what is newest wins, whatever order it comes in, and what is gone stays gone."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.kubernetes.apiserver.objects import KubeObject, Meta, OwnerReference, Pod, PodSpec
from sterna.engines.kubernetes.apiserver.port import EventType, Listing, WatchEvent
from sterna.engines.kubernetes.cache.object_store import Store

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


def pod(name: str = "a", version: int | str = 1, *, uid: str = "", node: str = "", job: str = "") -> Pod:
    owners = [OwnerReference(uid=job, controller=True)] if job else None
    meta = Meta(
        name=name, namespace="n", uid=uid or f"uid-{name}", resource_version=str(version), owner_references=owners
    )
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


def _owner(found: Pod) -> str | None:
    return next((owner.uid for owner in found.metadata.owner_references or ()), None)


def versions(store: Store[Pod]) -> dict[str, str]:
    return {found.metadata.name: found.metadata.resource_version for found in store}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(
            [("put", pod(version=5)), (ADDED, pod(version=3))], {"a": "5"}, id="an event from before our write"
        ),
        pytest.param([("put", pod(version=5)), (MODIFIED, pod(version=7))], {"a": "7"}, id="an event from after it"),
        pytest.param([(MODIFIED, pod(version=9)), ("put", pod(version=10))], {"a": "10"}, id="compared as numbers"),
        pytest.param([(DELETED, pod(version=9)), ("put", pod(version=5))], {}, id="an answer that comes after its end"),
        pytest.param(
            [("put", pod(version=5)), (DELETED, pod(version=6)), (ADDED, pod(version=5))],
            {},
            id="an event after its end",
        ),
        pytest.param(
            [("put", pod(version=5)), ("put", pod(version=8, uid="new")), (DELETED, pod(version=7))],
            {"a": "8"},
            id="the end of a predecessor leaves the one of the same name alone",
        ),
        pytest.param(
            [("put", pod(version=8, uid="new")), (MODIFIED, pod(version=6))],
            {"a": "8"},
            id="a predecessor's last words change nothing",
        ),
        pytest.param(
            [("put", pod(version=5)), (DELETED, pod(version=9, uid="new"))],
            {},
            id="the end of a successor is the end of its predecessor too",
        ),
        pytest.param(
            [(DELETED, pod(version=6)), (ADDED, pod(version=9))],
            {"a": "9"},
            id="an object that left the selection of a watch may come back",
        ),
        pytest.param(
            [(ADDED, pod(version="x1")), (MODIFIED, pod(version="x0"))],
            {"a": "x0"},
            id="versions that are no numbers are taken as they come",
        ),
        pytest.param(
            [("put", pod(version=5)), ("forget", pod(version=5)), (MODIFIED, pod(version=9))], {}, id="forgotten"
        ),
    ],
)
def test_r4_the_store_knows_what_is_newer(steps, expected):
    store: Store[Pod] = Store()
    for how, found in steps:
        match how:
            case "put":
                store.put(found)
            case "forget":
                store.forget(found)
            case _:
                store.apply(WatchEvent(how, found))
    assert versions(store) == expected


def test_a_listing_removes_what_it_lacks_unless_that_is_newer():
    store: Store[Pod] = Store()
    for found in (pod("kept", 3), pod("gone", 4), pod("ours", 20)):
        store.put(found)
    assert store.replace(Listing([pod("kept", 3), pod("new", 6)], "10")) == 2
    assert versions(store) == {"kept": "3", "ours": "20", "new": "6"}
    store.put(pod("gone", 4))
    assert "gone" not in versions(store)


def test_a_listing_with_a_successor_that_is_known_to_be_gone_removes_the_predecessor_too():
    store: Store[Pod] = Store()
    store.apply(WatchEvent(DELETED, pod(version=9, uid="successor")))
    store.put(pod(version=1))
    store.replace(Listing([pod(version=7, uid="successor")], "7"))
    assert versions(store) == {}


def test_a_listing_of_one_namespace_says_nothing_about_another():
    store: Store[KubeObject] = Store()
    store.put(KubeObject(metadata=Meta(name="a", namespace="other", uid="1", resource_version="1")))
    store.put(KubeObject(metadata=Meta(name="a", namespace="mine", uid="2", resource_version="2")))
    store.replace(Listing([], "9"), namespace="mine")
    assert [found.key for found in store] == [("other", "a")]


def test_listeners_hear_of_differences_only_and_of_a_successor_twice():
    heard: list[tuple[str, str]] = []

    def hear(before: Pod | None, after: Pod | None) -> None:
        before_it, after_it = (found.metadata.resource_version if found else "" for found in (before, after))
        heard.append((before_it, after_it))

    store: Store[Pod] = Store()
    store.listen(hear)
    store.put(pod(version=1))
    store.apply(WatchEvent(ADDED, pod(version=1)))
    store.replace(Listing([pod(version=1)], "3"))
    store.apply(WatchEvent(EventType.BOOKMARK, Pod(metadata=Meta(resource_version="4"))))
    assert heard == [("", "1")]
    store.apply(WatchEvent(ADDED, pod(version=5, uid="successor")))
    assert heard[1:] == [("1", ""), ("", "5")]


def test_indexes_follow_every_change():
    store = Store[Pod]({"job": _owner, "node": lambda found: found.spec.node_name})
    store.put(pod("a", 1, job="j"))
    store.put(pod("b", 2, job="j", node="n1"))
    assert {found.metadata.name for found in store.by("job", "j")} == {"a", "b"}
    store.put(pod("a", 3, job="j", node="n1"))
    assert {found.metadata.name for found in store.by("node", "n1")} == {"a", "b"}
    assert not store.by("node", "")
    store.apply(WatchEvent(DELETED, pod("a", 4)))
    store.replace(Listing([], "9"))
    assert not store.by("job", "j")
    assert not store.values_of("job")
    assert not store.values_of("node")


def test_tombstones_are_bounded_and_the_latest_are_kept():
    store: Store[Pod] = Store(tombstones_max=10)
    for number in range(100):
        store.apply(WatchEvent(DELETED, pod(f"p{number}", 100 + number)))
    for number in range(90, 100):
        assert not store.put(pod(f"p{number}", 1))
    assert len(store._tombstones) == 10


# -- any order ---------------------------------------------------------------------------------------------------------

Story = list[WatchEvent[Pod]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """What happens to a few names, in the order of the server: made, changed, ended, made anew under another uid."""
    clock = itertools.count(1)
    story: Story = []
    alive: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 12))):
        name = draw(st.sampled_from("abc"))
        version = next(clock)
        if name not in alive:
            alive[name] = f"{name}{version}"
            story.append(WatchEvent(ADDED, pod(name, version, uid=alive[name])))
        elif draw(st.booleans()):
            story.append(WatchEvent(MODIFIED, pod(name, version, uid=alive[name])))
        else:
            story.append(WatchEvent(DELETED, pod(name, version, uid=alive.pop(name))))
    return story


def newest(story: Story) -> dict[str, str]:
    state: dict[str, str] = {}
    for event in story:
        name = event.object.metadata.name
        if event.type is DELETED:
            del state[name]
        else:
            state[name] = event.object.metadata.resource_version
    return state


@given(story=stories(), data=st.data())
def test_r3_events_in_any_order_and_any_number_end_at_the_newest_state(story, data):
    repeated = story + data.draw(st.lists(st.sampled_from(story), max_size=8))
    shuffled = data.draw(st.permutations(repeated))
    store = Store[Pod]({"uid": lambda found: found.metadata.uid})
    ended: set[str] = set()
    for event in shuffled:
        as_answer = event.type is not DELETED and data.draw(st.booleans())
        if as_answer:
            store.put(event.object)
        else:
            store.apply(event)
        if event.type is DELETED:
            ended.add(event.object.metadata.uid)
        assert not ended & {found.metadata.uid for found in store}, "raised from the dead"
        assert sorted(store.values_of("uid")) == sorted(found.metadata.uid for found in store)  # type: ignore[type-var]
    assert versions(store) == newest(story)


@given(story=stories(), data=st.data())
def test_r3_a_listing_in_the_middle_changes_nothing_about_the_end(story, data):
    cut = data.draw(st.integers(0, len(story)))
    state = newest(story[:cut])
    listed = [event.object for event in story[:cut] if event.object.metadata.resource_version in state.values()]
    before = data.draw(st.permutations(story))[: data.draw(st.integers(0, len(story)))]
    store: Store[Pod] = Store()
    for event in before:  # answers and events of any age, some of them newer than the listing
        store.apply(event)
    store.replace(Listing(listed, str(cut)))
    for event in story[cut:]:
        store.apply(event)
    assert versions(store) == newest(story)


def test_a_listing_of_one_name_says_nothing_about_the_others():
    store: Store[Pod] = Store()
    for name in ("a", "b"):
        store.put(pod(name))
    assert store.replace(Listing([], "5"), namespace="n", name="a") == 1
    assert versions(store) == {"b": "1"}
    store.put(pod("c", 7))
    store.clear(namespace="n", name="b")
    assert versions(store) == {"c": "7"}
