"""What an installation applies to a cluster: the chart, the manifest rendered from it, the images, and its rights."""
