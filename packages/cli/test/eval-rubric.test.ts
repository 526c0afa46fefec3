import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { beforeEach, describe, expect, it } from 'vitest'

import { here, run, start, workIn } from './in-process.ts'
import { endpoint, refuse, say } from './model-endpoint.ts'
import { temporaryFolder, type Finished } from './osmosis.ts'
import { storedItem, storeRun } from './stored-runs.ts'

const rows = [
  { id: 'a', answer: 'Hello', ground_truth: 'Hi', human: 'pass' },
  { id: 'b', solution_str: 'Go away', human: false },
  {
    messages: [
      { role: 'user', content: 'Greet me.' },
      { role: 'assistant', content: 'Hello there' },
    ],
    metadata: { human: 0, tone: 'warm' },
  },
  { id: 'd', answer: 'Hello, not judged' },
]

beforeEach(() => {
  const folder = temporaryFolder()
  workIn(folder)
  writeFileSync(
    path.join(folder, 'rows.jsonl'),
    rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
  )
  writeFileSync(path.join(folder, 'rubric.md'), '1 for a greeting.\n')
})

/** Gives 1 to answers with a greeting in them, and records the requests. */
async function greetingJudge(): Promise<Awaited<ReturnType<typeof endpoint>>> {
  return endpoint(({ body }, response) => {
    const [, user] = body['messages'] as { content: string }[]
    const [, answer = ''] =
      /\[begin ANSWER \w+\]\n([^]*?)\n\[end ANSWER/.exec(user?.content ?? '') ?? []
    const score = answer.startsWith('Hello') ? 1 : 0
    say(response, JSON.stringify({ score, explanation: score ? 'It greets.' : 'It does not.' }))
  })
}

function rubric(url: string, words = '', file = 'rows.jsonl'): Promise<Finished> {
  const place = ['--base-url', `${url}/v1`, '--model', 'judge-1', '-d', file]
  const more = words === '' ? [] : words.split(' ')
  return run(['eval', 'rubric', ...place, '--rubric', '@rubric.md', ...more])
}

describe('osmosis eval rubric', () => {
  it('takes the flags of the Python command line', async () => {
    const judge = await greetingJudge()
    const { code, stdout } = await run(
      `eval rubric --base-url ${judge.url}/v1 --model judge-1 --data rows.jsonl -r @rubric.md --number 2 -o scores.json --json`.split(
        ' ',
      ),
    )
    expect([code, readFileSync(here('scores.json'), 'utf8')]).toEqual([0, stdout])
    expect(judge.received).toHaveLength(8)
  })

  it('scores a file of answers, and says how far people agree', async () => {
    const judge = await greetingJudge()
    const { code, stdout, stderr } = await rubric(judge.url, '--votes 3 --agree-with human')
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe(`ANSWER  SCORE  VOTES  PEOPLE  WHY
a       1      1 1 1  pass    It greets.
b       0      0 0 0  fail    It does not.
line 3  1      1 1 1  fail    It greets.
d       1      1 1 1          It greets.

Judge      judge-1
Score      0.75, standard deviation 0.5  (min 0, max 1, 4 of 4 scored)
Agreement  66.7 % of 3 answers, Cohen's kappa 0.40
           both pass 1, both fail 1, only the judge passes 1, only people pass 0 (pass: 0.5 or more)
Disagree   line 3
`)
    expect(judge.received).toHaveLength(12)
    const asked = judge.received.map(({ body }) => JSON.stringify(body['messages']))
    expect(asked.filter((text) => text.includes('tone'))).toHaveLength(3)
    // What people found is nothing for a judge to know.
    expect(asked.filter((text) => text.includes('human'))).toEqual([])
  })

  it('prints one JSON document with --json', async () => {
    const judge = await greetingJudge()
    const { code, stdout } = await rubric(judge.url, '--json')
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      {
        model: 'judge-1',
        answers: 4,
        scored: 4,
        mean: 0.75,
        agreement: null,
        rows: [
          { label: 'a', score: 1, explanation: 'It greets.', error: null },
          { label: 'b', score: 0 },
          { label: 'line 3', score: 1 },
          { label: 'd', score: 1 },
        ],
      },
    ])
  })

  it('takes tags of people as well', async () => {
    const tagged = [
      { answer: 'Hello', tags: ['good'] },
      { answer: 'Bye', tags: [] },
    ]
    writeFileSync(here('tagged.jsonl'), tagged.map((row) => JSON.stringify(row)).join('\n'))
    const judge = await greetingJudge()
    const { stdout } = await rubric(judge.url, '--agree-with good', 'tagged.jsonl')
    expect(stdout).toContain("Agreement  100.0 % of 2 answers, Cohen's kappa 1.00\n")
  })

  it('ends with 1 when an answer has no score, and shows why', async () => {
    const judge = await endpoint((_, response) => refuse(response, 401, 'Incorrect API key.'))
    const { code, stdout, stderr } = await rubric(judge.url)
    expect([code, stderr]).toEqual([1, 'error: 4 of 4 answers have no score.\n'])
    expect(stdout).toContain(
      'a       -             error: The judge judge-1 gave no score: it answered 401: Incorrect API key.\n',
    )
  })

  it.each([
    ['a range that is none', '--score-min 1', '--score-min must be less than --score-max.'],
    ['a tag without verdicts', '--agree-with mood', 'No row has a human verdict'],
  ])('ends with 2 for %s, and calls no judge', async (_what, flags, message) => {
    const judge = await greetingJudge()
    const { code, stderr } = await rubric(judge.url, flags)
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
    expect(judge.received).toEqual([])
  })

  it('sends the key of --api-key, and hides it from all output', async () => {
    const key = 'key-of-the-judge-0123'
    const judge = await endpoint(({ headers }, response) =>
      refuse(response, 401, `not the key: ${headers.authorization}`),
    )
    const { code, stdout, stderr } = await rubric(
      judge.url,
      `--json -o scores.json --api-key ${key}`,
    )
    expect([code, judge.received[0]?.headers.authorization]).toEqual([1, `Bearer ${key}`])
    expect(stdout).toContain('not the key: Bearer [redacted]')
    expect(stdout + stderr + readFileSync(here('scores.json'), 'utf8')).not.toContain(key)
  })

  it('takes one key of the judge', async () => {
    const { code, stderr } = await rubric('http://127.0.0.1:1', '--api-key k --api-key-env KEY')
    expect([code, stderr]).toEqual([2, expect.stringContaining('cannot be used with')])
    const empty = await run(
      [
        'eval',
        'rubric',
        '--base-url',
        'http://127.0.0.1:1',
        '--model',
        'm',
        '-d',
        'rows.jsonl',
      ].concat(['-r', 'one', '--api-key', '']),
    )
    expect([empty.code, empty.stderr]).toEqual([2, 'error: The value of --api-key is empty.\n'])
  })

  it('ends a call of the judge after --timeout', async () => {
    const judge = await endpoint(() => {})
    writeFileSync(here('one.jsonl'), '{"answer":"Hello"}\n')
    const { code, stdout } = await rubric(judge.url, '--timeout 0.05', 'one.jsonl')
    expect([code, stdout]).toEqual([1, expect.stringMatching(/aborted due to timeout/)])
    expect((await rubric(judge.url, '--timeout 0')).stderr).toContain('seconds above 0')
  })

  it('names lines that hold no answer', async () => {
    writeFileSync(here('bad.jsonl'), '{"answer":"a"}\n\n{"text":"b"}\nnot json\n')
    const { code, stderr } = await rubric('http://127.0.0.1:1', '', 'bad.jsonl')
    expect(code).toBe(2)
    expect(stderr).toContain(`error: Invalid answers bad.jsonl:
- line 3: needs messages (a list), answer or solution_str (a text)
- line 4: invalid JSON - `)
  })
})

it('osmosis eval rubric ends with 130 on Ctrl-C, while the judge has not answered', async () => {
  const judge = await endpoint(() => {})
  const words = `-d rows.jsonl --rubric @rubric.md --base-url ${judge.url}/v1 --model judge-1`
  const command = start(['eval', 'rubric', ...words.split(' ')])
  await expect.poll(() => judge.received.length).toBeGreaterThan(0)
  const { code, stdout, stderr } = await command.end()
  expect([code, stdout]).toEqual([130, ''])
  expect(stderr).toContain('Stopping: cancelling running work.')
  expect(stderr).not.toContain('    at ')
})

describe('osmosis eval rubric of a run', () => {
  /** Four rollouts, of which people have noted three: two verdicts and another remark. */
  async function notedRun(): Promise<string> {
    const items = ['Hello', 'Go away', 'Hello again', 'Hello, not read'].map((text, row) =>
      storedItem(row, text, row === 1 ? 0 : 1),
    )
    const folder = await storeRun(temporaryFolder(), items)
    const note = async (...args: string[]) => run(['eval', 'note', folder, ...args])
    await note('0.1', 'polite', '--tag', 'pass')
    await note('1.1', '--tag', 'fail')
    await note('2.1', 'it repeats itself', '--tag', 'bad')
    await note('3.1', 'look at this again', '--tag', 'later')
    return folder
  }

  async function ofRun(url: string, folder: string, ...more: string[]): Promise<Finished> {
    const judge = ['--base-url', `${url}/v1`, '--model', 'judge-1', '--rubric', '@rubric.md']
    return run(['eval', 'rubric', '--run', folder, ...judge, ...more])
  }

  it('judges the rollouts with a verdict in their notes, and names those that it sees otherwise', async () => {
    const judge = await greetingJudge()
    const folder = await notedRun()
    const { code, stdout, stderr } = await ofRun(judge.url, folder)
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe(`ANSWER  SCORE  VOTES  PEOPLE  WHY
0.1     1             pass    It greets.
1.1     0             fail    It does not.
2.1     1             fail    It greets.

Judge      judge-1
Score      0.667, standard deviation 0.577  (min 0, max 1, 3 of 3 scored)
Agreement  66.7 % of 3 answers, Cohen's kappa 0.40
           both pass 1, both fail 1, only the judge passes 1, only people pass 0 (pass: 1 or more)
Disagree   2.1
Read one   osmosis eval show ${folder} 2.1
`)
    const texts = judge.received.map(({ body }) => JSON.stringify(body['messages']))
    const first = texts.find((text) => text.includes('question 0')) ?? ''
    expect(first).toMatch(/begin ORIGINAL INPUT \w+\]\\nquestion 0\\n/)
    expect(first).toMatch(/begin GROUND TRUTH \w+\]\\n0\\n/)
    expect(first).not.toContain('polite')
    const { stdout: json } = await ofRun(judge.url, folder, '--json')
    expect(JSON.parse(json)).toMatchObject({
      answers: 3,
      agreement: { both_pass: 1, only_judge_passes: 1, disagreements: ['2.1'] },
    })
  })

  it('stores scores as a grading; what the judge did not score has no reward there', async () => {
    const judge = await endpoint(({ body }, response) => {
      const text = JSON.stringify(body['messages'])
      if (text.includes('Go away')) refuse(response, 400, 'too rude')
      else say(response, JSON.stringify({ score: 1, explanation: 'Fine.' }))
    })
    const folder = await notedRun()
    const stored = await ofRun(judge.url, folder, '--as', 'judge')
    expect([stored.code, stored.stderr]).toEqual([
      1,
      `Scores stored: osmosis eval view ${folder}@judge\nerror: 1 of 3 answers have no score.\n`,
    ])
    const { stdout } = await run(['eval', 'show', `${folder}@judge`, '--filter', '', '--json'])
    const { items } = JSON.parse(stdout) as {
      items: { item: string; value: number | null; event: { error_message: string | null } }[]
    }
    expect(items.map(({ item, value }) => [item, value])).toEqual([
      ['0.1', 1],
      ['1.1', null],
      ['2.1', 1],
    ])
    expect(items[1]?.event.error_message).toContain('too rude')
    const noted = await run([
      'eval',
      'show',
      `${folder}@judge`,
      '--json',
      '--filter',
      'tag:bad is:passed',
    ])
    expect(JSON.parse(noted.stdout)).toMatchObject({ items: [{ item: '2.1' }] })
    const calls = judge.received.length
    expect(await ofRun(judge.url, folder, '--as', 'judge')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('There is stored@judge already'),
    })
    expect(await ofRun(judge.url, folder, '--as', '../x')).toMatchObject({ code: 2 })
    expect(judge.received).toHaveLength(calls)
  })

  it('judges the rollouts of a filter, and takes another tag as a pass', async () => {
    const judge = await greetingJudge()
    const folder = await notedRun()
    const filter = ['--filter', 'is:passed', '--agree-with', 'later']
    const { code, stdout } = await ofRun(judge.url, folder, ...filter)
    expect(code).toBe(0)
    expect(stdout).toContain('both pass 1, both fail 0, only the judge passes 2')
    expect(stdout).toContain('Disagree   0.1, 2.1\n')
  })

  it.each([
    ['a file beside the run', ['-d', 'rows.jsonl'], 'Pass either --dataset <file> or --run <run>'],
    ['a filter without rollouts', ['--filter', 'row:9'], 'matches row:9.'],
  ])('ends with 2 for %s, and calls no judge', async (_what, flags, message) => {
    const judge = await greetingJudge()
    const { code, stderr } = await ofRun(judge.url, await notedRun(), ...flags)
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
    expect(judge.received).toEqual([])
  })

  it('says how to note a verdict where a run has none', async () => {
    const judge = await greetingJudge()
    const folder = await storeRun(temporaryFolder(), [storedItem(0, 'Hello', 1)])
    const { code, stderr } = await ofRun(judge.url, folder)
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(`osmosis eval note ${folder} 12.1 --tag pass`),
    ])
    expect((await rubric(judge.url, '--as judge')).stderr).toContain('pass --run <run> as well')
  })
})
