import { join } from 'node:path'

import { platformProblems, readDataset, readEvalConfig, readTrainingConfig } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'

const rows = [
  { question: 'What is 1 + 1?', expected: 2, role: 'Be brief.', facts: { level: 1 }, source: 'a' },
  { question: 'What is 2 + 2?', expected: 4, role: 'Be brief.', facts: { level: 2 }, source: 'b' },
]
const jsonl = rows.map((row) => JSON.stringify(row)).join('\n')
const csv = [
  'question,expected,role,facts,source',
  ...rows.map(({ question, expected, role, facts, source }) =>
    [question, expected, role, `"${JSON.stringify(facts).replaceAll('"', '""')}"`, source].join(),
  ),
].join('\n')

describe('columns with other names', () => {
  it.each([
    ['rows.jsonl', jsonl],
    ['rows.csv', csv],
  ])('of %s have the meaning that they are given', async (name, content) => {
    const file = join(await temporaryFolder({ [name]: content }), name)
    const columns = { prompt: 'question', label: 'expected', system: 'role', metadata: 'facts' }
    expect(await readDataset(file, { columns })).toMatchObject([
      {
        initialMessages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'What is 1 + 1?' },
        ],
        label: '2',
        metadata: { level: 1 },
        otherColumns: { source: 'a' },
      },
      { label: '4', metadata: { level: 2 }, otherColumns: { source: 'b' } },
    ])
  })

  it.each([
    ['rows.jsonl', `${jsonl}\n{"question":"3?","expected":3,"source":null,"metadata":{"x":1}}`],
    ['rows.csv', `${csv}\n3?,3,,,`],
  ])('of %s become fields of the metadata', async (name, content) => {
    const file = join(await temporaryFolder({ [name]: content }), name)
    const columns = { prompt: 'question', label: 'expected', metadata: ['role', 'source'] }
    const read = await readDataset(file, { columns })
    expect(read.map(({ metadata }) => metadata)).toEqual([
      { role: 'Be brief.', source: 'a' },
      { role: 'Be brief.', source: 'b' },
      null,
    ])
    expect(Object.keys(read[0]?.otherColumns ?? {})).toEqual(['facts'])
  })

  it('become fields of the answer, which only the grader gets', async () => {
    const text = `${jsonl}\n{"question":"Which?","facts":{"level":3},"expected":null}\n{"question":"3?","facts":null,"expected":null}`
    const file = join(await temporaryFolder({ 'rows.jsonl': text }), 'rows.jsonl')
    const columns = { prompt: 'question', label: ['facts', 'expected'], metadata: ['source'] }
    const read = await readDataset(file, { columns })
    expect(read.map(({ label, metadata }) => [label, metadata])).toEqual([
      ['{"facts":{"level":1},"expected":2}', { source: 'a' }],
      ['{"facts":{"level":2},"expected":4}', { source: 'b' }],
      ['{"facts":{"level":3},"expected":null}', null],
      [null, null],
    ])
    expect(read[0]?.otherColumns).toEqual({ role: 'Be brief.' })
  })

  it('replace the columns with the usual names, which mean nothing then', async () => {
    const text = JSON.stringify({ q: 'mine', user_prompt: 'other', label: '1', answer: '2' })
    const file = join(await temporaryFolder({ 'rows.jsonl': text }), 'rows.jsonl')
    const columns = { prompt: 'q', label: 'answer' }
    expect(await readDataset(file, { columns })).toMatchObject([
      {
        initialMessages: [{ role: 'user', content: 'mine' }],
        label: '2',
        otherColumns: { user_prompt: 'other', label: '1' },
      },
    ])
  })

  it.each([
    [
      { prompt: 'querstion', label: 'expected' },
      'columns.prompt: there is no column "querstion". Found: "question", "expected", "role", "facts", "source".',
    ],
    [{ prompt: 'question' }, 'missing required columns: ground_truth.'],
    [{ prompt: 'question' }, 'name those columns in [columns] of a config, as label = "…".'],
    [{ metadata: ['role', 'sauce'] }, 'columns.metadata: there is no column "sauce".'],
    [
      { prompt: 'facts', label: 'expected' },
      'line 1: facts must be text, got object; if run() makes its prompt of it, name the column as metadata',
    ],
    [{ metadata: 'question' }, 'line 1: metadata is not valid JSON'],
  ])('are checked by these names: %j', async (columns, problem) => {
    const file = join(await temporaryFolder({ 'rows.jsonl': jsonl }), 'rows.jsonl')
    const { code, message } = await osmosisErrorOf(() => readDataset(file, { columns }))
    expect(code).toBe('invalid_dataset')
    expect(message).toContain(problem)
  })
})

describe('[columns] of a config', () => {
  const experiment =
    '[experiment]\nrollout = "r"\nentrypoint = "main.ts"\nmodel_path = "m"\ndataset = "d"\n'
  const columns = '[columns]\nprompt = "question"\nlabel = "expected"\n'

  it.each([
    ['eval', readEvalConfig],
    ['training', readTrainingConfig],
  ] as const)(
    'is read from those of kind %s, and the platform does not have it',
    async (kind, read) => {
      const text = `${experiment}${columns}`
      const folder = await temporaryFolder({
        'rollouts/r/main.ts': '',
        'data/d.jsonl': '',
        [`configs/${kind}/r.toml`]: text,
      })
      const config = await read(join(folder, `configs/${kind}/r.toml`))
      expect(config.experiment.columns).toEqual({ prompt: 'question', label: 'expected' })
      // Whoever evaluates here need not hear of it.
      expect(config.platformProblems.join()).not.toContain('columns')
      const rename =
        'the platform reads user_prompt, ground_truth, system_prompt and metadata; rename the column in the file'
      expect(platformProblems(kind, text)).toEqual(
        expect.arrayContaining([`columns.prompt: ${rename}`, `columns.label: ${rename}`]),
      )
      const wrong = await osmosisErrorOf(async () => {
        const other = await temporaryFolder({
          'rollouts/r/main.ts': '',
          'data/d.jsonl': '',
          [`configs/${kind}/r.toml`]: `${experiment}[columns]\nquestion = "prompt"\nlabel = ""\nmetadata = []\n`,
        })
        return read(join(other, `configs/${kind}/r.toml`))
      })
      expect(wrong.message).toMatch(/columns\.question/)
      expect(wrong.message).toMatch(/columns\.label: must be the name of a column/)
      expect(wrong.message).toMatch(/columns\.metadata: must be .* or a list of names/)
    },
  )
})
