"""The demo: MiniLM cut in two, one half in each of two pods, activations between them through Sealane."""
