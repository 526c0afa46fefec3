import { describe, expect, it } from 'vitest'

import { csv } from './dataset-files.ts'
import { problemsAs, readAs } from './reading.ts'

const header = ['user_prompt', 'ground_truth']

describe('cells', () => {
  it('stay text, even if they look like numbers or JSON', async () => {
    const texts = ['0042', '9007199254740993', '1.0', 'true', 'null', ' x ', "'", '2024-05-01']
    const rows = await readAs('rows.csv', csv([[...header, 'Id'], ...texts.map((x) => [x, x, x])]))
    expect(
      rows.map(({ initialMessages, label, otherColumns }) => [
        initialMessages[0]?.content,
        label,
        otherColumns.Id,
      ]),
    ).toEqual(texts.map((text) => [text, text, text]))
  })

  it('in quotes may hold commas, quotes, and line breaks as they are', async () => {
    const text = 'user_prompt,ground_truth\n"a, ""b""\r\n\n\tc","""1"""\n'
    const [row] = await readAs('rows.csv', text)
    expect([row?.initialMessages[0]?.content, row?.label]).toEqual(['a, "b"\r\n\n\tc', '"1"'])
  })

  it('that are empty count as absent, in quotes or not', async () => {
    const text = 'user_prompt,ground_truth,label,system_prompt,Id\na,"",l,,\n'
    expect(await readAs('rows.csv', text)).toEqual([
      {
        sourceRowIndex: 0,
        initialMessages: [{ role: 'user', content: 'a' }],
        label: 'l',
        metadata: null,
        otherColumns: {},
      },
    ])
  })

  it('of metadata are JSON, and its column is there even when all of them are empty', async () => {
    const rows = await readAs(
      'rows.csv',
      'user_prompt,metadata\na,"{""level"": 1.0, ""tags"": [""x""]}"\nb,\n',
    )
    expect(rows.map(({ metadata }) => metadata)).toEqual([{ level: 1, tags: ['x'] }, null])
    const [prompt] = await readAs('rows.csv', 'user_prompt,metadata\na,\n')
    expect(prompt?.label).toBeNull()
  })

  it.each(['', 'x', 'xx'])('may be larger than what is read at once, after "%s"', async (start) => {
    // In one of the three cases, what is read next begins like a file with a byte order mark.
    const long = `${start}${'\uFEFF'.repeat(50_000)}${'é,"\r\n'.repeat(10_000)}`
    const text = csv([header, [long, '1'], ['b', '2']], { lineEnd: '\r\n' })
    const rows = await readAs('rows.csv', text)
    expect(rows.map(({ initialMessages }) => initialMessages[0]?.content)).toEqual([long, 'b'])
  })
})

describe('lines', () => {
  it.each([
    ['LF', 'user_prompt,ground_truth\na,1\nb,2\n'],
    ['CRLF', 'user_prompt,ground_truth\r\na,1\r\nb,2\r\n'],
    ['CR', 'user_prompt,ground_truth\ra,1\rb,2\r'],
    ['a mixture', 'user_prompt,ground_truth\na,1\r\nb,2'],
    ['nothing at the end of the file', 'user_prompt,ground_truth\na,1\nb,2'],
  ])('may end in %s', async (_name, text) => {
    const rows = await readAs('rows.csv', text)
    expect(rows.map(({ label }) => label)).toEqual(['1', '2'])
  })

  it('that are blank are skipped and not counted as rows, above the header too', async () => {
    const rows = await readAs('rows.csv', '\nuser_prompt,ground_truth\n\na,1\r\n\r\nb,2\n\n')
    expect(rows.map(({ sourceRowIndex, label }) => [sourceRowIndex, label])).toEqual([
      [0, '1'],
      [1, '2'],
    ])
  })

  it.each([
    ['plain', '\uFEFFuser_prompt,ground_truth\na,1\n'],
    ['in quotes', '\uFEFF"user_prompt","ground_truth"\n"a","1"\n'],
  ])('may start with a byte order mark: %s', async (_name, text) => {
    const [row] = await readAs('rows.csv', text)
    expect([row?.label, row?.otherColumns]).toEqual(['1', {}])
  })
})

describe('a bad file', () => {
  const good = 'user_prompt,ground_truth\na,1\n'

  it.each<[string, string | Uint8Array, string[]]>([
    [
      'rows with more or fewer cells than the header',
      `${good}b,2,3\n"c\r\n\n",3\nd\n`,
      [
        '- line 3: expected 2 cells, as in the header, got 3; put cells with commas or line breaks in quotes',
        '- line 7: expected 2 cells, as in the header, got 1; put cells with commas or line breaks in quotes',
      ],
    ],
    [
      'columns without a name, or with the name of another',
      'user_prompt,label,id, ,id,\na,1,2,3,4,5\n',
      [
        '- line 1: column 4 has no name; give it one or remove it',
        '- line 1: there are two columns "id"; rename or remove one of them',
        '- line 1: column 6 has no name; give it one or remove it',
      ],
    ],
    [
      'bytes that are not UTF-8',
      Buffer.concat([
        Buffer.from(`${good}"b\n`),
        Buffer.from([0xff]),
        Buffer.from('",2\nc,'),
        Buffer.from([0xc3]),
        Buffer.from('\n'),
      ]),
      [
        '- line 3: column "user_prompt": invalid UTF-8; save the file as UTF-8',
        '- line 5: column "ground_truth": invalid UTF-8; save the file as UTF-8',
      ],
    ],
    [
      'a header that is not UTF-8',
      Buffer.from('\uFEFFuser_prompt,label', 'utf16le'),
      ['- line 1: column 1: invalid UTF-8; save the file as UTF-8'],
    ],
    [
      'a quote that stays open',
      `${good}\nb,"2\n\n\n`,
      ['- line 4: a quote is opened and never closed'],
    ],
    [
      'text after a quote',
      `${good}"b\n" x,2\n`,
      ['- line 3: text follows a closing quote; write a quote inside of a quoted cell twice'],
    ],
    [
      'a quote in the middle',
      `${good}b,2\nthe "c",2\n`,
      [
        '- line 4: a quote inside of a cell without quotes around it; remove what precedes the quote (such as a space after the comma), or put the whole cell in quotes and write inner quotes twice',
      ],
    ],
    [
      'a quote after a space',
      'user_prompt, "ground_truth"\na,1\n',
      [
        '- line 1: a quote inside of a cell without quotes around it; remove what precedes the quote (such as a space after the comma), or put the whole cell in quotes and write inner quotes twice',
      ],
    ],
    [
      'cells that are missing',
      `${good}"\n",2\n,3\nd,\n`,
      [
        "- line 5: user_prompt is required for a dataset with no 'metadata' column",
        "- line 6: ground_truth (or label) is required for a dataset with no 'metadata' column",
      ],
    ],
    [
      'metadata that is not an object',
      'user_prompt,metadata\na,[1]\nb,1\nc,x\n,\n',
      [
        '- line 2: metadata must be a JSON object, got array',
        '- line 3: metadata must be a JSON object, got number',
        expect.stringMatching(/^- line 4: metadata is not valid JSON \(.+\)$/),
        '- line 5: has no prompt and no metadata; fill in user_prompt or metadata',
      ],
    ],
  ])('is rejected for %s', async (_name, text, problems) => {
    expect(await problemsAs('rows.csv', text)).toEqual(problems)
  })

  const naming =
    'If other columns have them, the rows can stay: name those columns in [columns] of a config, as prompt = "…" and label = "…".'

  it.each([
    [
      'semicolons',
      'user_prompt;label\na;1\n',
      'Found: "user_prompt;label". Cells must be separated by commas, not by ";": save the file with commas.',
    ],
    [
      'tabs',
      'user_prompt\tlabel\na\t1\n',
      'Found: "user_prompt\\tlabel". Cells must be separated by commas, not by tabs: save the file with commas.',
    ],
    ['nothing', 'prompt\na\n', `Found: "prompt". ${naming}`],
    ['commas', 'a;b,c\n1,2\n', `Found: "a;b", "c". ${naming}`],
  ])(
    'with cells separated by %s is rejected with advice to use commas',
    async (_name, text, end) => {
      expect(await problemsAs('rows.csv', text)).toEqual([
        `- missing required columns: user_prompt, ground_truth. Datasets without a metadata column must include user_prompt and ground_truth (label is accepted as an alias). ${end}`,
      ])
    },
  )

  it('is rejected with its first five problems', async () => {
    const problems = await problemsAs('rows.csv', `${good}${'b\n'.repeat(3)}${'c,1,2\n'.repeat(3)}`)
    expect(problems.map((problem) => problem.split(',')[0])).toEqual([
      ...[3, 4, 5, 6, 7].map((line) => `- line ${line}: expected 2 cells`),
      '... (showing first 5 errors)',
    ])
  })
})
