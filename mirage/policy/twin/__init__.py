"""The cluster simulated forward from now, and the policy that decides by it."""
