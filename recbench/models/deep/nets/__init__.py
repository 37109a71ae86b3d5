"""What is trained, in PyTorch: nothing outside of here imports it, and nothing imports this early.

A net is a module, its loss, and what ranks afterwards. `trainer.py` does the rest.
"""
