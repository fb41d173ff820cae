"""The method of the paper, for `from ilba import masking`: see `ilba.methods.masking`."""

from ilba.methods.masking import (
    DRAW_RANGE,
    Masked,
    Parts,
    apply_iLBA,
    apply_SCA,
    candidates,
    feasible,
    ilba,
    loss_bound,
    parts,
    preimage,
    sca,
)

__all__ = [
    "DRAW_RANGE",
    "Masked",
    "Parts",
    "apply_SCA",
    "apply_iLBA",
    "candidates",
    "feasible",
    "ilba",
    "loss_bound",
    "parts",
    "preimage",
    "sca",
]
