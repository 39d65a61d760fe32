"""A terminal's control sequences in a text, such as colours: nobody who reads the text sees them.

Source: ECMA-48, 5.3 and 5.4; operating system commands end as xterm ends them.
"""

# Colours.java has the same expression.
SEQUENCES = r"\x1B(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1B]*+(?:\x07|\x1B\\)|[@-Z\\^_])"
ESCAPE = "\x1b"
