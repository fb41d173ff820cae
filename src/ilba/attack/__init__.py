"""The attack: what anybody can prove from all tables that are released together. All results are confidential."""
