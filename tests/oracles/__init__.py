from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"
"""Cases recorded from Flink 2.3; its README tells their format."""
