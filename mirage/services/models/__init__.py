"""List and promote trained models, and compile what they run."""
