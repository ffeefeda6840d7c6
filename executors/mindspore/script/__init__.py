"""What runs in MindSpore's own environment: the standard library, numpy and mindspore alone."""
