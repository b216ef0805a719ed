"""An operator: a class for ``operators/arithmetic.py``.

This text is put behind that of the clone, which has the names.
"""

OPERATOR = '''

class Sign(Unary, name="sign", compute=elementwise(pc.sign)):
    """-1, 0 or 1."""

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the type of the operand for floats and int8 for integers."""
        (operand,) = operands
        require("sign", operand, Family.INTEGER, Family.FLOAT)
        result = operand.type if operand.family is Family.FLOAT else pa.int8()
        return Signature((operand.type,), result)
'''
