from dataclasses import dataclass


@dataclass
class ProgramResult:
    exit_code: int
    stdout: str
    stderr: str
