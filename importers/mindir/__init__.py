"""MindIR files of MindSpore, read as data: `importers.mindir.reading` makes graphs of them."""
