"""The main job of each engine on real data, from one command: `python -m offpath.quickstart`."""
