import { cpSync, existsSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { openRun, readTrainingJournal } from '@osmosis/eval'
import { expect, it, onTestFinished } from 'vitest'

import { FakeTinker, temporaryFolder, tokenModelFolder } from '../../../test/kit/index.ts'
import { inWorkspace, run as osmosis, start } from './in-process.ts'
import { workspace } from './osmosis.ts'

inWorkspace()

const config = 'configs/training/doors.toml'

it('needs a key for the hosted service, and prints the plan without a service', async () => {
  const hosted = await osmosis(['train', 'tinker', config, '--dry-run'], { TINKER_API_KEY: '' })
  expect(hosted.code).not.toBe(0)
  expect(hosted.stderr).toContain(
    'https://tinker.thinkingmachines.dev/services/tinker-prod needs a key: set TINKER_API_KEY',
  )
  const planned = await osmosis(['train', 'tinker', config, '--dry-run', '--steps', '2'], {
    TINKER_API_KEY: 'tml-0123456789abcdef',
  })
  expect(planned.code).toBe(0)
  // 2 × 4 rows × 8 attempts, and 4 held-out rows × 4 attempts before and after.
  expect(planned.stderr).toMatch(/^At most +4,608 prompt, 1,536 sampled and 4,096 trained tokens$/m)
  const short = ['train', 'tinker', config, '--dry-run', '--max-length', '16']
  const refused = await osmosis(short, { TINKER_API_KEY: 'tml-0123456789abcdef' })
  expect(refused.stderr).toMatch(/--max-length 16 leaves no room for a prompt beside an answer of/)
  const wrong = await osmosis(['train', 'tinker', config, '--prices', '1,2'])
  expect(wrong.stderr).toContain('It must be three prices, such as 0.13,0.4,0.4.')
})

it(
  'trains with the settings of its config, and names those that are not the defaults',
  { tags: 'slow' },
  async () => {
    const { service, folder, args } = await prepared('configs/training/doors-settings.toml')
    const how = ['--steps', '2', '--lr', '0.2', '--seed', '1']
    const { code, stderr } = await osmosis([...args, ...how])
    expect(code).toBe(0)
    const settings = {
      loss: 'cispo',
      clip_low: 0.1,
      clip_high: 4,
      minibatches: 2,
      max_grad_norm: 0.5,
      weight_decay: 0.01,
      normalize_advantages: false,
      mask_cut_answers: true,
      lr_schedule: 'linear',
      passes: 3,
      patience: 9,
    }
    const text = Object.entries(settings).map(([name, value]) => `${name} ${value}`)
    expect(stderr).toContain(`Settings  ${text.join(', ')}\n`)
    expect(stderr).toMatch(/^Calls +no limit per rollout: rolloutLimits.modelCalls sets one$/m)
    const training = path.join(folder, 'doors-settings')
    const records = readTrainingJournal(training)
    const [started] = records
    expect(started).toMatchObject({ kind: 'start', settings })

    // Every fifth row is held out, and no step has it.
    expect(stderr).toMatch(/^Rows +12 to train, 4 held out$/m)
    const { manifest } = await openRun(path.join(training, 'runs', 'before'))
    expect(manifest.rows.map(({ source_row: row }) => row)).toEqual([0, 5, 10, 15])
    const drawn = records.flatMap((record) => (record.kind === 'step' ? record.rows : []))
    expect(drawn.filter((row) => row % 5 === 0)).toEqual([])
    expect(drawn).toHaveLength(8)

    const losses = service.sentTo('forward_backward').map((body) => body.forward_backward_input)
    for (const loss of losses) {
      expect(loss).toMatchObject({
        loss_fn: 'cispo',
        loss_fn_config: { clip_low_threshold: 0.9, clip_high_threshold: 4 },
      })
    }
    const steps = service.sentTo('optim_step').map((body) => body.adam_params)
    // Three passes in two minibatches, in each of two steps.
    const rates = [0.2, 0.1].flatMap((rate) => Array<number>(6).fill(rate))
    expect(steps.map((one) => one?.['learning_rate'])).toEqual(rates)
    for (const one of steps) expect(one).toMatchObject({ weight_decay: 0.01, grad_clip_norm: 0.5 })
  },
)

/** The config with further lines in `[training]`. */
async function configWith(lines: string): Promise<string> {
  const root = await temporaryFolder()
  for (const part of ['rollouts/doors', 'data']) {
    cpSync(path.join(workspace, part), path.join(root, part), { recursive: true })
  }
  const file = path.join(root, 'doors.toml')
  const text = readFileSync(path.join(workspace, config), 'utf8')
  writeFileSync(file, text.replace('[training]', `[training]\n${lines}`))
  return file
}

it.each([
  ['kl = 0.1', 'A Tinker service has no penalty: remove training.kl'],
  ['lora_targets = "q_proj"', 'Only train local has training.lora_targets: remove it'],
  ['max_staleness = 1', 'Only train local has training.max_staleness: remove it'],
  ['importance_cap = 3', 'has no importance weights: remove training.importance_cap'],
  ['loss = "ppo"', 'training.loss: must be grpo, dr_grpo, dapo, cispo or gspo, got "ppo"'],
  ['normalize_advantages = 1', 'training.normalize_advantages: must be true or false, got 1'],
])('refuses %s', async (line, message) => {
  const command = ['train', 'tinker', await configWith(line)]
  const refused = await osmosis([...command, '--url', 'http://127.0.0.1:9'])
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain(message)
})

it('takes keys that it cannot follow where they have their defaults', async () => {
  const keys = 'kl = 0\nimportance_cap = 2\nmax_staleness = 0\nprecision = "auto"'
  const command = ['train', 'tinker', await configWith(keys), '--dry-run']
  const planned = await osmosis([...command, '--url', 'http://127.0.0.1:9'])
  expect(planned.code).toBe(0)
  expect(planned.stderr).not.toContain('Settings')
})

it(
  'a training without a signal stops, says what to do, and serves no model',
  { tags: 'slow' },
  async () => {
    const { service, folder, args } = await prepared()
    const dataset = path.join(folder, 'rows.jsonl')
    const rows = Array.from({ length: 10 }, (_, at) => ({
      id: `door-${at}`,
      user_prompt: 'Door dd: dad?',
      ground_truth: 'zz',
      metadata: { note: 'aa' },
    }))
    writeFileSync(dataset, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
    const command = [...args, '-d', dataset, '--steps', '6', '--rows-per-step', '2']
    const first = await osmosis([...command, '--n', '2'])
    expect(first.stdout).toContain(
      'Nothing was trained: in none of 3 steps did attempts at the same row get different rewards.',
    )
    expect(first.stdout).toContain('--warm-start <reward>')
    expect(first.stdout).toMatch(/^Read them .*osmosis eval show .*doors\/step-0001$/m)
    expect(first.stdout).toContain('the same command, which tries as many steps again')
    expect(first.stdout).not.toMatch(/serve|Weights|Used|Better|Worse/)
    expect(existsSync(path.join(folder, 'doors', 'model'))).toBe(false)
    expect(first.code).toBe(1)
    expect(first.stderr).not.toContain('Resumes')

    // It may try what was advised: more attempts, and a warm start, whose steps are in the plan.
    const tried = ['--n', '3', '--warm-start', '0.9', '--without-signal', '2']
    const again = await osmosis([...command, ...tried])
    expect(again.stderr).toMatch(/^Resumes +after 3 of 9 steps; --fresh starts a new training$/m)
    expect(again.stderr).toContain('9 of 2 rows × 3 attempts = 54 rollouts, 3 of them of the warm')
    expect(again.stderr.match(/^step .*$/gm)).toHaveLength(2)
    expect(again.stderr.match(/warm start\)$/gm)).toHaveLength(2)
    expect(again.stdout).toContain('in none of 5 steps')
    expect(again.code).toBe(1)

    // What it may not is refused before a model is made.
    const models = service.sentTo('create_model').length
    const refused = await osmosis([...command, '--lora-rank', '8', '--rows-per-step', '1'])
    expect(refused.stderr).toContain('- --rows-per-step (rollout_batch_size): was 2, is 1')
    expect(refused.stderr).toContain('- --lora-rank: was 16, is 8')
    expect(refused.code).toBe(2)
    expect(service.sentTo('create_model')).toHaveLength(models)

    // Its folder names it, wherever it lies.
    const training = path.join(folder, 'doors')
    expect(again.stderr).toMatch(new RegExp(`^Watch it +.*osmosis eval view ${training}$`, 'm'))
    for (const name of ['step-0001', 'before']) {
      const shown = await osmosis(['eval', 'show', `${training}/${name}`])
      expect(shown.stdout).toContain(name)
    }
  },
)

it('a training whose agents have too little time says so, and which key gives them more', async () => {
  const { args } = await prepared('configs/training/doors-hasty.toml')
  const { stdout, stderr, code } = await osmosis(args)
  expect(code).toBe(1)
  expect(stdout).toContain('12 of 12 rollouts failed: find out why.')
  const said = stderr.replaceAll(/\s+/g, ' ')
  expect(said).toMatch(
    /held-out rows before: reward none, passed 0\.0 % ! 16 of 16 rollouts failed/,
  )
  expect(said).toContain(
    '! 4 of 4 rollouts failed (limit 20 %), and nothing is learned from them: 4 with timeout (workflow exceeded its 0.001s deadline). Raise agent_workflow_timeout_s or lower max_response_length.',
  )
})

const key = 'tml-0123456789abcdef'

/** A service, and the arguments to train on it in a folder. */
async function prepared(own = config): Promise<{
  readonly service: FakeTinker
  readonly folder: string
  readonly args: readonly string[]
}> {
  const service = await new FakeTinker().start()
  onTestFinished(() => service[Symbol.asyncDispose]())
  const [folder, tokenizer] = [await temporaryFolder(), await tokenModelFolder()]
  const where = ['--url', service.url, '--tokenizer', tokenizer, '--output', folder]
  return { service, folder, args: ['train', 'tinker', own, ...where] }
}

/** All text in the files of a folder. */
function writtenIn(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'utf8'))
    .join('\n')
}

it(
  'makes a model better on a service, shows what it costs, and unloads it',
  { tags: 'slow' },
  async () => {
    const { service, folder, args } = await prepared()
    const settings = ['--steps', '6', '--prices', '10,20,30', '--seed', '1']
    const { code, stdout, stderr } = await osmosis([...args, ...settings], { TINKER_API_KEY: key })
    expect(stderr).toMatch(
      /^At most +\$[\d.]+ for [\d,]+ prompt, [\d,]+ sampled and [\d,]+ trained/m,
    )
    expect(stderr).toMatch(/^step +6 .* drift 0 .* \$[\d.]+ for [\d,]+ prompt/m)
    expect(code).toBe(0)
    const rewards = [...stderr.matchAll(/^step +\d+ +reward (\S+)/gm)].map(([, text]) =>
      Number(text),
    )
    expect(rewards).toHaveLength(6)
    expect(Math.max(...rewards.slice(-3))).toBeGreaterThan((rewards[0] ?? 1) + 0.3)
    expect(stdout).toContain('All steps are done. 6 updates in 6 steps.')
    expect(stdout).toMatch(/^Weights +tinker:\/\/model_1\/sampler_weights\/osmosis-6-/m)
    expect(stdout).toMatch(/^Used +\$[\d.]+ for/m)
    expect(service.models).toEqual([])
    expect(service.requests[0]?.headers['x-api-key']).toBe(key)
    expect(stdout + stderr + writtenIn(folder)).not.toContain(key)
  },
)

it(
  'says where the weights are although an evaluation has no reward, and ends with code 0',
  { tags: 'slow' },
  async () => {
    const file = await configWith('')
    const root = path.dirname(file)
    symlinkSync(
      path.resolve(import.meta.dirname, '../node_modules'),
      path.join(root, 'node_modules'),
    )
    const entrypoint = path.join(root, 'rollouts/doors/main.ts')
    // The first evaluation has four attempts at four rows.
    const grade = 'async grade(ctx: GraderContext): Promise<void> {\n'
    const text = readFileSync(entrypoint, 'utf8').replace(
      grade,
      `${grade}    if ((graded += 1) <= 16) throw new Error('the judge is down')\n`,
    )
    writeFileSync(entrypoint, `let graded = 0\n${text}`)
    const { args } = await prepared(file)
    const { code, stdout, stderr } = await osmosis([...args, '--steps', '1'])
    expect(stderr).toMatch(/held-out rows +before: reward none/)
    expect(stderr.replaceAll(/\s+/g, ' ')).toContain(
      'warning: The evaluations cannot be compared. before and after-step-0001 have no row in common that has a value in both.',
    )
    expect(stdout).toContain('All steps are done. 1 updates in 1 steps.')
    expect(stdout).toMatch(/^Weights +tinker:/m)
    expect(code).toBe(0)
  },
)

it(
  'saves and unloads after Ctrl-C, and continues with the same command',
  { tags: 'slow' },
  async () => {
    const { service, args } = await prepared()
    const all = [...args, '--steps', '2', '--n', '2']
    const first = start(all)
    await first.printed(/^step +1 /m)
    const { code, stderr } = await first.end()
    expect(code).toBe(130)
    expect(stderr).toContain('The same command continues with the training.')
    expect(service.models).toEqual([])

    const second = await osmosis(all)
    expect(second.code).toBe(0)
    expect(second.stderr).toMatch(/^step +2 /m)
    expect(second.stderr).not.toMatch(/^step +1 /m)
    // Another state is loaded at the end when it was the best.
    expect(service.sentTo('load_weights')[0]?.path).toMatch(/\/osmosis-1-/)
  },
)

it('refuses a key without repeating it, and unloads after an error', { tags: 'slow' }, async () => {
  const { service, folder, args } = await prepared()
  service.next('create_session', { status: 401, body: { detail: `invalid key ${key}` } })
  const refused = await osmosis([...args, '--steps', '1'], { TINKER_API_KEY: key })
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain(
    'The Tinker service refuses the key (401): invalid key [the key]',
  )

  service.next('asample', { status: 402, body: { detail: `no credit for ${key}` } })
  const spent = await osmosis([...args, '--steps', '1'], { TINKER_API_KEY: key })
  expect(spent.code).not.toBe(0)
  expect(spent.stderr).toContain('Its account has no credit left: add some and continue.')
  expect(service.models).toEqual([])
  expect(refused.stderr + spent.stderr + writtenIn(folder)).not.toContain(key)
})
