import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { readEvalConfig } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'

const experiment = `[experiment]
rollout = "multiply"
entrypoint = "main.ts"
model_path = "openai/gpt-5"
dataset = "data/multiply.jsonl"
`

async function workspace(config: string): Promise<{ root: string; config: string }> {
  const root = await temporaryFolder({
    'rollouts/multiply/main.ts': '',
    'data/multiply.jsonl': '',
    'configs/eval/multiply.toml': config,
  })
  return { root, config: join(root, 'configs/eval/multiply.toml') }
}

/** The lines below the heading, which names the file. The workspace's folder becomes `<root>`. */
async function problemsOf(toml: string): Promise<string[]> {
  const { root, config } = await workspace(toml)
  const { code, message } = await osmosisErrorOf(() => readEvalConfig(config))
  const [heading, ...lines] = message.replaceAll(root, '<root>').split('\n')
  expect([code, heading]).toEqual([
    'invalid_config',
    'Invalid eval config <root>/configs/eval/multiply.toml:',
  ])
  return lines
}

describe('a valid eval config', () => {
  it('gets the local defaults: one attempt, threshold 1, no limits', async () => {
    const { root, config } = await workspace(experiment)
    expect(await readEvalConfig(config)).toEqual({
      path: config,
      workspaceRoot: root,
      experiment: {
        rollout: 'multiply',
        entrypoint: 'main.ts',
        modelPath: 'openai/gpt-5',
        dataset: 'data/multiply.jsonl',
        branch: null,
        commitSha: null,
        rolloutFolder: join(root, 'rollouts/multiply'),
        entrypointFile: join(root, 'rollouts/multiply/main.ts'),
        datasetFile: join(root, 'data/multiply.jsonl'),
        columns: {},
      },
      evaluation: {
        limit: null,
        n: 1,
        batchSize: null,
        passThreshold: 1,
        agentWorkflowTimeoutSeconds: null,
        graderTimeoutSeconds: null,
      },
      env: {},
      requiredSecrets: [],
      workflow: {},
      advanced: {},
      platformProblems: ['secrets: missing; add [secrets] with required = [] for none'],
    })
  })

  it('returns everything that is written in it', async () => {
    const { root, config } = await workspace(`${experiment}
commit_sha = "0123abc"
[evaluation]
limit = 10
n = 4
batch_size = 8
pass_threshold = 0.0
agent_workflow_timeout_s = 450
grader_timeout_s = 2.5
[env]
LOG_LEVEL = "debug"
[secrets]
required = ["API_KEY"]
[workflow]
max_iterations = 8

[advanced]
anything = { goes = [1] }
`)
    const read = await readEvalConfig(config)
    expect({ ...read, experiment: read.experiment.commitSha }).toEqual({
      path: config,
      workspaceRoot: root,
      experiment: '0123abc',
      evaluation: {
        limit: 10,
        n: 4,
        batchSize: 8,
        passThreshold: 0,
        agentWorkflowTimeoutSeconds: 450,
        graderTimeoutSeconds: 2.5,
      },
      env: { LOG_LEVEL: 'debug' },
      requiredSecrets: ['API_KEY'],
      workflow: { max_iterations: 8 },
      advanced: { anything: { goes: [1] } },
      platformProblems: [],
    })
  })

  it('outside of configs/eval/ would be refused by the platform', async () => {
    const { root } = await workspace(experiment)
    const config = join(root, 'configs/mine.toml')
    await writeFile(config, `${experiment}[secrets]\nrequired = []\n`)
    expect((await readEvalConfig(config)).platformProblems).toEqual([
      'not in configs/eval/ of the workspace; move it there',
    ])
  })

  it('needs no dataset when another one is passed', async () => {
    const { root, config } = await workspace(experiment.replace('data/multiply', 'data/gone'))
    const read = await readEvalConfig(config, { datasetFile: join(root, 'other.jsonl') })
    expect(read.experiment.datasetFile).toBe(join(root, 'other.jsonl'))
  })

  it.each([0, -1])('reads limit = %i as all rows', async (limit) => {
    const { config } = await workspace(`${experiment}[evaluation]\nlimit = ${limit}\n`)
    expect((await readEvalConfig(config)).evaluation.limit).toBeNull()
  })
})

describe('an invalid eval config', () => {
  it.each<[string, string, string[]]>([
    [
      'a typo in a key',
      `${experiment}[evaluation]\npass_treshold = 0.5\n`,
      ['- evaluation.pass_treshold: unknown key; did you mean pass_threshold?'],
    ],
    [
      'a key that resembles none',
      `${experiment}[evaluation]\nzzz = 1\n`,
      [
        '- evaluation.zzz: unknown key; known: limit, n, batch_size, pass_threshold, agent_workflow_timeout_s, grader_timeout_s',
      ],
    ],
    [
      'a typo in a section',
      `${experiment}[evaluaton]\nn = 2\n`,
      ['- evaluaton: unknown section; did you mean evaluation?'],
    ],
    [
      'an empty file',
      '',
      ['rollout', 'entrypoint', 'model_path', 'dataset'].map(
        (key) => `- experiment.${key}: missing`,
      ),
    ],
    [
      'a value where a section belongs',
      `evaluation = 3\n${experiment}`,
      ['- evaluation: must be a section, [evaluation]'],
    ],
    [
      'values of the wrong kind, all at once',
      `${experiment}[evaluation]
limit = 1.5
n = "4"
batch_size = 0
pass_threshold = inf
grader_timeout_s = true
agent_workflow_timeout_s = 0
`,
      [
        '- evaluation.limit: must be an integer, got 1.5',
        '- evaluation.n: must be a positive integer, got "4"',
        '- evaluation.batch_size: must be a positive integer, got 0',
        '- evaluation.pass_threshold: must be a finite number, got Infinity',
        '- evaluation.agent_workflow_timeout_s: must be a positive number of seconds; omit it to run unbounded, got 0',
        '- evaluation.grader_timeout_s: must be a positive number of seconds; omit it to run unbounded, got true',
      ],
    ],
    [
      'a rollout that is not one folder',
      experiment.replace('"multiply"', '"../multiply"'),
      ['- experiment.rollout: must be the name of a folder in rollouts/, got "../multiply"'],
    ],
    [
      'both a branch and a commit',
      `${experiment}branch = "main"\ncommit_sha = "0123abc"\n`,
      ['- experiment.commit_sha: cannot be combined with branch; keep one of them'],
    ],
    [
      'a value that is not a commit',
      `${experiment}commit_sha = "main"\n`,
      ['- experiment.commit_sha: must be 7 to 40 hexadecimal digits, got "main"'],
    ],
    [
      'variables with bad names or values, whose values stay hidden',
      `${experiment}[env]\nlower = "1"\n_OSMOSIS_X = "1"\nPORT = 8000\n`,
      [
        '- env.lower: must be named in capitals, digits and underscores',
        '- env._OSMOSIS_X: names that start with _OSMOSIS_ are reserved',
        '- env.PORT: must be a string, got number',
      ],
    ],
    [
      'a bad name of a secret, which may be the secret itself and stays hidden',
      `${experiment}[secrets]\nrequired = ["A", "sk-proj-1"]\n`,
      ['- secrets.required.1: must be a name in capitals, digits and underscores, got string'],
    ],
    [
      'secrets that are listed twice or set in the config',
      `${experiment}[env]\nPORT = "1"\n[secrets]\nrequired = ["A", "A", "PORT"]\n`,
      [
        '- secrets.required.1: A is listed twice',
        '- secrets.required.2: PORT is set in [env] too; keep one of them',
      ],
    ],
    [
      'a policy, which belongs into the file of the workspace',
      `${experiment}[policy]\nmodule = "policies/arithmetic.ts"\n`,
      [
        "- policy: the policy of local runs is not part of a config; write it as [policies.<name>] in osmosis.toml at the workspace's root",
      ],
    ],
    [
      'files that are not there',
      experiment.replace('main.ts', 'man.ts').replace('data/multiply.jsonl', 'divide'),
      [
        '- experiment.entrypoint: no such file: <root>/rollouts/multiply/man.ts',
        '- experiment.dataset: no such file: <root>/data/divide.jsonl, .ndjson, .csv, .parquet. <root>/data has multiply.jsonl.',
      ],
    ],
    [
      'an entrypoint outside of its rollout',
      experiment.replace('main.ts', '../../data/multiply.jsonl'),
      [
        '- experiment.entrypoint: must lie inside <root>/rollouts/multiply, got "../../data/multiply.jsonl"',
      ],
    ],
  ])('names %s', async (_name, toml, problems) => {
    expect(await problemsOf(toml)).toEqual(problems)
  })

  it('is shown with line and column when it is not TOML', async () => {
    const [first] = await problemsOf('[experiment]\nrollout = multiply\n')
    expect(first).toMatch(/^- line 2, column 11: /)
  })

  it('is refused outside of a workspace', async () => {
    const folder = await temporaryFolder({ 'eval.toml': experiment })
    const file = join(folder, 'eval.toml')
    expect(await osmosisErrorOf(() => readEvalConfig(file))).toEqual({
      code: 'invalid_config',
      message: `Invalid eval config ${file}:\n- not in an Osmosis workspace: no folder above has both rollouts/ and data/`,
    })
  })

  it('is reported by name when there is no such file', async () => {
    const folder = await temporaryFolder()
    const file = join(folder, 'eval.toml')
    expect(await osmosisErrorOf(() => readEvalConfig(file))).toEqual({
      code: 'invalid_config',
      message: `Cannot read the eval config ${file}: there is no such file`,
    })
  })

  it('is suggested when the path names a rollout and no file', async () => {
    const file = join(await temporaryFolder(), 'calculator')
    const { message } = await osmosisErrorOf(() => readEvalConfig(file))
    expect(message).toContain(
      'there is no such file. A config is a file: configs/eval/calculator.toml',
    )
  })

  it('is reported with the configs of its folder when its name is misspelt', async () => {
    const folder = await temporaryFolder({ 'b.toml': '', 'a.toml': '', 'notes.md': '' })
    const file = join(folder, 'c.toml')
    expect(await osmosisErrorOf(() => readEvalConfig(file))).toEqual({
      code: 'invalid_config',
      message: `Cannot read the eval config ${file}: there is no such file. ${folder} has a.toml, b.toml.`,
    })
  })
})
