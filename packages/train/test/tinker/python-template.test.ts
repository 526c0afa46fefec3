import { expect, it, onTestFinished, vi } from 'vitest'

import { PythonTemplate } from '../../src/tinker/python-template.ts'

// The results are those of jinja2 3.1.6 on Python 3.11.
it.each([
  ["{{ it.strip('\\n') }}", '\n \n', ' '],
  ["{{ it.lstrip('\\n') }}", '\n\n  x\n', '  x\n'],
  ["{{ it.rstrip('ab\\n') }}", ' xba\n', ' x'],
  [
    "{{ it.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}",
    '<think>\n a\n</think>',
    ' a',
  ],
  ['{{ it.strip() }}', '\u001C\u0085\u00A0\uFEFFx\uFEFF \n', '\uFEFFx\uFEFF'],
  ['{{ it | trim }}', '\u001C 👩‍👩‍👧 \u2028', '👩‍👩‍👧'],
  ['{{ it | string }}', null, 'None'],
  ['{{ it | string }}', true, 'True'],
  ['{{ it | string | trim }}', false, 'False'],
  ['{{ it | string }}', 7, '7'],
  ['{%- macro say(x) %}[{{ x.lstrip("a") }}]{% endmacro %}{{ say(it) }}', 'aab', '[b]'],
])('%s of %j is what it is in Python', (template, value, expected) => {
  expect(new PythonTemplate(template).render({ it: value })).toBe(expected)
})

it('refuses to strip what is not a text', () => {
  expect(() => new PythonTemplate('{{ it.strip() }}').render({ it: null })).toThrow('not a text')
})

const loop = '{% for i in range(100000) %}'
const end = '{% endfor %}'

it.each([
  ['loops in loops', `${loop}${loop}${end}${end}`],
  ['loops that write', `${loop}${loop}x${end}${end}`],
  ['a loop that writes much', `${loop}${'{{ it }}'.repeat(200)}${end}`],
])('a template that runs for too long is ended: %s', (_, template) => {
  // Whoever asks for the time finds that a millisecond has passed.
  let now = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 1))
  onTestFinished(() => clock.mockRestore())
  const rendered = (): string => new PythonTemplate(template).render({ it: 'abc' })
  expect(rendered).toThrow('runs for more than 2 seconds')
  expect(now).toBeLessThan(2010)
})

it.each([
  ['a long text', `{% for i in range(200) %}${'x'.repeat(100_000)}${end}`, 'writes 20000000 char'],
  ['a range without end', '{% for i in range(1000000000) %}{% endfor %}', 'a range of 1000000000'],
  [
    'a text that doubles itself',
    '{% set n = namespace(s=it) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s }}',
    /writes \d+ characters|string length/,
  ],
])('a template that does not end is ended: %s', (_, template, message) => {
  expect(() => new PythonTemplate(template).render({ it: 'abc' })).toThrow(message)
})

it.each([
  ['{% for i in range(3) %}{{ i }}{% endfor %}', '012'],
  ['{% for i in range(1, 7, 2) %}{{ i }}{% endfor %}', '135'],
  ['{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}', '321'],
  ['{% for i in range(5, 2) %}{{ i }}{% else %}none{% endfor %}', 'none'],
  [
    '{% for i in range(4) %}{% if i == 2 %}{% break %}{% endif %}{{ loop.index }}{% endfor %}',
    '12',
  ],
])('loops are what they are in Python: %s', (template, expected) => {
  expect(new PythonTemplate(template).render({})).toBe(expected)
})
