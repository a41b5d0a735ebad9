"""The robot-independent half of semflip: video memory, encoders, gate and decision.

Importing this package is instant: heavy libraries load where they are used.
"""

__version__ = "0.1.0"
