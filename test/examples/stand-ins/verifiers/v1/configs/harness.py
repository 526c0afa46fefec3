class HarnessConfig:
    pass
