import { writeFileSync } from 'node:fs'

import { expect, it } from 'vitest'

import { here, run, useProcesses } from './in-process.ts'
import {
  agents,
  asked,
  lineOf,
  loop,
  main,
  migrated,
  problems,
  session,
} from './migrated-workspace.ts'
import { evalConfig } from './temporary-workspace.ts'

// Where `osmosis validate` says that the cause of a problem lies.

const ready = loop('await ask(ctx.prompt)')

it.each<[string, string, string, string]>([
  [
    'a key that is none',
    evalConfig('one', '[evaluation]\nn = 1\nbatchsize = 2\n'),
    'batchsize',
    'did you mean batch_size',
  ],
  [
    'a value that does not fit',
    evalConfig('one', '[evaluation]\nbatch_size = "x"\n'),
    'batch_size',
    'batch_size',
  ],
  [
    'a key that is missing',
    evalConfig('one').replace('dataset = "words"\n', ''),
    '[experiment]',
    'dataset: missing',
  ],
  [
    'a file that is not there',
    evalConfig('one').replace('"words"', '"others"'),
    'dataset =',
    'no such file',
  ],
  ['what is no TOML', evalConfig('one', '[evaluation]\nn = = 1\n'), 'n = = 1', 'line 8'],
])('the line of a config with %s', async (_what, config, text, said) => {
  migrated(ready)
  writeFileSync(here('configs/eval/one.toml'), config)
  const [finding] = await problems()
  expect(finding).toMatchObject({
    check: 'config',
    message: expect.stringContaining(said) as string,
    file: 'configs/eval/one.toml',
    line: lineOf(config, text),
    page: 'node_modules/@osmosis/cli/docs/reference/configuration.md',
  })
})

it('the line of a dataset with a row that cannot be read', async () => {
  migrated(ready)
  writeFileSync(
    here('data/words.jsonl'),
    '{"user_prompt":"a","ground_truth":"b"}\n\n{"user_prompt"\n',
  )
  expect(await problems()).toMatchObject([
    { check: 'dataset', file: 'data/words.jsonl', line: 3, advice: expect.any(String) as string },
  ])
})

it('the section of the config that names the columns, for rows with names of their own', async () => {
  migrated(ready, [{ question: 'How many?', sensors: [1, 2], expect: '3' }])
  expect(await problems()).toMatchObject([
    {
      check: 'dataset',
      message: expect.stringContaining('Found: "question", "sensors", "expect".') as string,
      file: 'data/words.jsonl',
      advice: expect.stringMatching(/^Leave the rows as they are, .* in \[columns\]/) as string,
    },
  ])
})

it('the line of an entrypoint that is no TypeScript', { tags: 'slow' }, async () => {
  useProcesses()
  const source = `${ready}const const = 1\n`
  migrated(source)
  expect(await problems()).toMatchObject([
    { check: 'entrypoint', file: main, line: lineOf(source, 'const const') },
  ])
})

it.each([
  ['throws', "\nthrow new Error('no shop')", 2],
  ['is no TypeScript', '\nexport const const = 1', 2],
  ['imports a file that is not there', "import './gone.ts'", undefined],
  ['imports a package that is not there', "import 'gone'", undefined],
  ['ends the process', '\nprocess.exit(3)', 2],
])(
  'the file that %s while it is loaded, behind the entrypoint',
  { tags: 'slow' },
  async (...is) => {
    useProcesses()
    const [, tools, line] = is
    migrated(`import './tools.ts'\n${ready}`)
    writeFileSync(here('rollouts/one/tools.ts'), `${tools}\n`)
    const [finding] = await problems()
    expect([finding?.check, finding?.file, finding?.line]).toEqual([
      'entrypoint',
      'rollouts/one/tools.ts',
      line,
    ])
  },
)

it('the line of an import whose module has no such export', { tags: 'slow' }, async () => {
  useProcesses()
  const source = `import { price } from './tools.ts'\nconsole.log(price)\n${ready}`
  migrated(source)
  writeFileSync(here('rollouts/one/tools.ts'), 'export const other = 1\n')
  expect(await problems()).toMatchObject([
    { check: 'entrypoint', file: main, line: lineOf(source, 'import { price }') },
  ])
})

it('the line of what a function of the rollout threw, in the file where it stands', async () => {
  const tools = `\nexport function price(article) {\n  return article.price.amount\n}\n`
  migrated(loop(`await ask(ctx.prompt); price({})`, `import { price } from './tools.ts'`))
  writeFileSync(here('rollouts/one/tools.ts'), tools)
  expect(await problems()).toMatchObject([
    { check: 'rollout', file: 'rollouts/one/tools.ts', line: lineOf(tools, 'article.price') },
  ])
})

it('the line of a variable that the config does not name', async () => {
  const source = agents(`${session}\nprocess.env.SHOP_URL\n${asked}`)
  migrated(source)
  expect(await problems()).toMatchObject([
    { check: 'variables', file: main, line: lineOf(source, 'process.env') },
  ])
})

it('a person reads the place, the change and the page below the cause', async () => {
  migrated(agents(`throw new Error('no shop')`))
  const { stdout } = await run(['validate', 'one'])
  const [, finding = ''] = /\nfail([^]*?)\n\n/.exec(stdout) ?? []
  expect(finding.split('\n').map((line) => line.trim())).toEqual([
    expect.stringMatching(
      /^rollout {5}The rollout ended with failure: thrown by run\(\) at .*: no shop$/,
    ),
    `at ${main}:10`,
    '→ Correct the code that threw it.',
    'see node_modules/@osmosis/core/docs/guides/workflows.md#who-is-blamed-for-what',
  ])
})
