"""The attack: what anybody can prove from everything that is released together. All of it is confidential."""
