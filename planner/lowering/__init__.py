"""From a graph on a mesh to a `Problem`."""
