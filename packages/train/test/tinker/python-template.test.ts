import { expect, it } from 'vitest'

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
