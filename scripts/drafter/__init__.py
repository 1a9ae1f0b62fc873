"""Training a DFlash drafter: prompts, answers of the target, the drafter in PyTorch, its training and export."""
