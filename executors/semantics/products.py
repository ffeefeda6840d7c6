"""Matrix products."""

from __future__ import annotations

from string import ascii_letters

from executors.placement import Array
from ir.semantics.arrays import np
from ir.semantics.call import Call


def matmul(call: Call) -> list[Array]:
    a, b = call[0], call[1]
    if call.int("trans_a") and a.ndim > 1:
        a = np.swapaxes(a, -1, -2)
    if call.int("trans_b") and b.ndim > 1:
        b = np.swapaxes(b, -1, -2)
    return [np.matmul(a, b)]


def einsum(call: Call) -> list[Array]:
    """Diagonals are products with a unit matrix: they have a gradient then."""
    operands = [call[i] for i in range(len(call.operands))]
    terms, result = _equation(str(call.op.attributes["equation"]))
    free = iter(c for c in ascii_letters if c not in "".join((*terms, result)))
    for number, whole in enumerate(tuple(terms)):
        term = whole
        while repeated := next((c for c in term if c.isalpha() and term.count(c) > 1), None):
            letter, place = next(free), term.index(repeated)
            size = operands[number].shape[place - (len(term) if "..." in term[:place] else 0)]
            term = term[:place] + letter + term[place + 1 :]
            terms.append(letter + repeated)
            operands.append(np.eye(size, dtype=operands[number].dtype))
        terms[number] = term
    return [np.einsum(f"{','.join(terms)}->{result}", *operands)]


def _equation(text: str) -> tuple[list[str], str]:
    """Terms of the operands and of the result, which an equation may leave out."""
    left, arrow, right = text.replace(" ", "").partition("->")
    if not arrow:
        letters = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        right = "..." * ("..." in left) + "".join(letters)
    return left.split(","), right


def scaled(call: Call) -> list[Array]:
    return [call[0] * call.float("scale", 1.0)]
