"""Tools for models whose chat template knows none."""
from pathlib import Path

HEAD = "You can call these functions:"
# Makes messages without tools, which the model's own template then renders. Tinker trainings use it, too.
PREFIX = Path(__file__).with_name("described_tools.jinja").read_text("utf-8")


def with_tools(template, lacks_system):
    """The template, with tools described in the system message, or in the first message of the user where the model has no other. The
    model calls them in the form of Hermes."""
    return PREFIX.replace("FIRST", "user" if lacks_system else "system") + template
