import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'

import { FakeTinker, tokenModelFolder } from '../../../test/kit/index.ts'
import { evaluate, run, start } from './in-process.ts'
import { evalConfig } from './temporary-workspace.ts'
import { inTypedWorkspace } from './typed-workspace.ts'

let root = ''
beforeEach(() => {
  root = inTypedWorkspace()
})

describe('osmosis eval run', () => {
  const evalRun = (words: string): ReturnType<typeof run> =>
    run(
      `eval run -m rollouts/typed/main.ts --policy policies/echo.ts --output out ${words}`.split(
        ' ',
      ),
    )

  it('refuses rows that do not fit, each with its line, before anything runs', async () => {
    const { code, stderr } = await evalRun('-d data/bad.jsonl')
    expect([code, stderr.slice(stderr.indexOf('error:'))]).toEqual([
      2,
      `error: Invalid dataset data/bad.jsonl:
- line 3: metadata.city: Invalid input: expected string, received undefined
- line 5: metadata.city: Invalid input: expected string, received number; metadata.days: Invalid input: expected number, received string
`,
    ])
    const made = existsSync(path.join(root, 'out')) ? readdirSync(path.join(root, 'out')) : []
    expect(made.filter((name) => name !== '.locks')).toEqual([])
  })
})

describe('labels that a grader cannot use', () => {
  const problems = `- line 2: label: numeric needs a label that is one number and nothing else, got "3 or 4".
- line 3: label: numeric needs a label that is one number and nothing else, got "3,5". Write the decimal point as a point, or pass decimalComma: true.
- line 4: label: numeric needs a reference answer, got null. Give the row a ground_truth, or reward it by another rule.
- line 6: label: numeric needs a label that is one number and nothing else, got "2024-01-05".
- line 7: label: numeric needs a label that is one number and nothing else, got "12:30".
`

  it('are refused with their rows before anything runs, and the plan counts rows without one', async () => {
    const words =
      'eval run -m rollouts/sums/main.ts --policy policies/echo.ts --output out -d data/labels.jsonl --dry-run'
    const { code, stderr } = await run(words.split(' '))
    expect([code, stderr.slice(stderr.indexOf('error:'))]).toEqual([
      2,
      `error: Invalid dataset data/labels.jsonl:\n${problems}`,
    ])
    expect(stderr).toContain('No answer  1 of 8 rows without ground_truth')
    const usable = await run(`${words} --rows 0,4,7`.split(' '))
    expect(usable.code).toBe(0)
    expect(usable.stderr).not.toContain('No answer')
  })

  it('are refused with their rows before a training samples anything', async () => {
    const service = await new FakeTinker().start()
    onTestFinished(() => service[Symbol.asyncDispose]())
    const words = `train tinker sums.toml --url ${service.url} --tokenizer ${await tokenModelFolder()}`
    const trained = await run(words.split(' '))
    expect([trained.code, trained.stderr.slice(trained.stderr.indexOf('error:'))]).toEqual([
      2,
      // The first of five rows is held out.
      `error: Invalid dataset ${path.join(root, 'data/labels.jsonl')}:\n${problems.replace(/^.*2024-01.*\n/m, '')}`,
    ])
    const usable = '{"user_prompt":"How much?","ground_truth":"4"}\n'
    writeFileSync(path.join(root, 'data/usable.jsonl'), usable.repeat(5))
    const heldOut = `${words} --dataset data/usable.jsonl --held-out data/labels.jsonl`.split(' ')
    const { code, stderr } = await run(heldOut)
    expect([code, stderr.slice(stderr.indexOf('error:'))]).toEqual([
      2,
      `error: Invalid dataset data/labels.jsonl:\n${problems}`,
    ])
    expect(service.sentTo('asample')).toEqual([])
  })

  it('fail their rollouts on a running server, each with its row and its label', async () => {
    const args = ['serve', 'rollouts/sums/main.ts', '--port', '0', '--no-trajectories']
    const [, url = ''] = await start(args).printed(/Listening on (\S+)/)
    const { records } = await evaluate(
      `--server ${url} -d data/labels.jsonl --policy policies/echo.ts`,
    )
    const failed = records.filter(({ status }) => status === 'failed')
    const said = (line: number, label: string) =>
      expect.stringMatching(
        new RegExp(
          `^line ${line}: .*The label ${label} does not fit the grader's label schema: label: `,
        ),
      ) as unknown
    expect(failed.map((record) => record['error_message'])).toEqual([
      said(2, '"3 or 4"'),
      said(3, '"3,5"'),
      said(4, 'null'),
      said(6, '"2024-01-05"'),
      said(7, '"12:30"'),
    ])
    expect(records).toHaveLength(8)
  })

  it('are found by dataset validate', async () => {
    const words = 'dataset validate data/labels.jsonl --entrypoint rollouts/sums/main.ts'
    const { code, stdout } = await run(words.split(' '))
    expect([code, stdout.endsWith(problems)]).toEqual([1, true])
  })
})

describe('osmosis dataset validate with a config that names the columns', () => {
  const columns = '[columns]\nprompt = "question"\nlabel = "answer"\nmetadata = ["city"]\n'
  const validate = async (...rows: readonly object[]): ReturnType<typeof run> => {
    const write = (file: string, text: string): void => writeFileSync(path.join(root, file), text)
    mkdirSync(path.join(root, 'configs/eval'), { recursive: true })
    write('configs/eval/cities.toml', evalConfig('typed', columns).replace('"words"', '"cities"'))
    write('data/cities.jsonl', rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
    const words = 'dataset validate data/cities.jsonl --entrypoint rollouts/typed/main.ts'
    return run(words.split(' '), { COLUMNS: '100' })
  }
  const row = { question: 'Where?', answer: 'Here.', city: 'Rome' }

  it('reads the rows with them, and says that the platform does not', async () => {
    const { code, stdout } = await validate(row, row, row, row)
    expect(code).toBe(1)
    expect(stdout).toContain('- missing required columns: user_prompt, ground_truth')
    expect(stdout.replaceAll('\n', ' ')).toContain(
      'warning: The platform reads no [columns] of a config, so its datasets need the usual names. For evaluations and trainings on this machine, the [columns] of configs/eval/cities.toml fit all 4 rows. ',
    )
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100)
  })

  it('checks them by the schema of the entrypoint', async () => {
    const { stdout } = await validate(row, { ...row, city: 5 })
    expect(stdout).toContain('- line 2: metadata.city: Invalid input')
  })

  it('says what of the file does not fit them', async () => {
    const { stdout } = await validate({ question: 'Where?', city: 'Rome' })
    expect(stdout.replaceAll('\n', ' ')).toContain(
      'warning: With the [columns] of configs/eval/cities.toml: columns.label: there is no column "answer"',
    )
  })
})

describe('osmosis dataset validate --entrypoint', () => {
  const validate = (words: string): ReturnType<typeof run> =>
    run(['dataset', 'validate', ...words.split(' ')])

  it('checks all rows of the file by the schema of the workflow', async () => {
    expect(await validate('data/valid.jsonl --entrypoint rollouts/typed/main.ts')).toMatchObject({
      code: 0,
      stdout: 'data/valid.jsonl is a valid dataset.\n',
    })
    const { code, stdout } = await validate('data/bad.jsonl --entrypoint rollouts/typed/main.ts')
    expect(code).toBe(1)
    expect(stdout).toContain(
      '- line 3: metadata.city: Invalid input: expected string, received undefined\n- line 5: metadata.city',
    )
  })
})

describe('rows of a declared shape', { tags: 'slow' }, () => {
  it('looks only at the rows it takes, and gives user code what the schema made of them', async () => {
    const { code, stdout } = await run(
      'eval run -m rollouts/typed/main.ts --policy policies/echo.ts -o out -d data/bad.jsonl --rows 0,2'.split(
        ' ',
      ),
    )
    expect(code).toBe(0)
    expect(stdout).toMatch(/Reward\s+2\b/)
  })

  it('is checked by workers, too', async () => {
    const words =
      'eval run -m rollouts/sums/main.ts --workers 1 --policy policies/echo.ts -o out -d data/labels.jsonl'
    const { code, stderr } = await run(words.split(' '))
    expect(code).toBe(2)
    expect(stderr).toContain('- line 2: label: numeric needs a label that is one number')
  })

  it('says so when the entrypoint declares no schema, or cannot be loaded', async () => {
    const echo = await run(
      'dataset validate data/valid.jsonl --entrypoint rollouts/echo/main.ts'.split(' '),
    )
    expect([echo.code, echo.stdout]).toEqual([
      0,
      'data/valid.jsonl is a valid dataset.\nwarning: rows were not checked against rollouts/echo/main.ts: its configs declare no schema of metadata or labels\n',
    ])
    const none = await run(
      'dataset validate data/valid.jsonl --entrypoint rollouts/none.ts'.split(' '),
    )
    expect(none.code).toBe(2)
    expect(none.stderr).toMatch(/The entrypoint file .* does not exist/)
  })
})
