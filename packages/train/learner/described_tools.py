"""Tools for models whose chat template knows none."""

HEAD = "You can call these functions:\\n"
HOW = ('To call one, answer with its name and arguments:\\n<tool_call>\\n{"name": "...", "arguments": {...}}\\n</tool_call>\\n'
       "Its result follows in <tool_response>.")

# Makes messages without tools, which the model's own template then renders.
PREFIX = """
{%- if tools or messages | selectattr('role', 'equalto', 'tool') | list -%}
{%- set described = namespace(messages=[], head='', calls='', results='') -%}
{%- if tools -%}
  {%- set described.head = 'HEAD' -%}
  {%- for tool in tools -%}{%- set described.head = described.head + (tool.function | tojson) + '\\n' -%}{%- endfor -%}
  {%- set described.head = described.head + 'HOW' -%}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'tool' -%}
    {%- set described.results = described.results + ('\\n' if described.results else '')
        + '<tool_response>\\n' + message.content + '\\n</tool_response>' -%}
  {%- endif -%}
  {%- if described.results and (loop.last or message.role != 'tool') -%}
    {%- set described.messages = described.messages + [{'role': 'user', 'content': described.results}] -%}
    {%- set described.results = '' -%}
  {%- endif -%}
  {%- if message.role != 'tool' -%}
    {%- set described.calls = message.content or '' -%}
    {%- for call in message.tool_calls or [] -%}
      {%- set described.calls = described.calls + ('\\n' if described.calls else '') + '<tool_call>\\n{"name": '
          + (call.function.name | tojson) + ', "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' -%}
    {%- endfor -%}
    {%- set described.messages = described.messages + [{'role': message.role, 'content': described.calls}] -%}
  {%- endif -%}
{%- endfor -%}
{%- if described.head -%}
  {%- if described.messages[0].role == 'FIRST' -%}
    {%- set described.head = described.messages[0].content + '\\n\\n' + described.head -%}
    {%- set described.messages = described.messages[1:] -%}
  {%- endif -%}
  {%- set described.messages = [{'role': 'FIRST', 'content': described.head}] + described.messages -%}
{%- endif -%}
{%- set messages = described.messages -%}
{%- endif -%}
""".replace("HEAD", HEAD).replace("HOW", HOW)


def with_tools(template, refuses_system):
    """The template, with tools described in the system message, or in the first message of the user where the model has no other. The
    model is asked to call them in the form of Hermes."""
    return PREFIX.replace("FIRST", "user" if refuses_system else "system") + template
