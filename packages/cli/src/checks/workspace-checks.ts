import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError } from '@osmosis/core'
import {
  configSections,
  platformProblems,
  readEvalConfig,
  readWorkspaceConfig,
  type ConfigKind,
  type PolicyConfig,
} from '@osmosis/eval'

import { closing } from '../command/process.ts'
import { openPolicy, policyChoice, type ChosenPolicy } from '../inputs/choose-policy.ts'
import { changeFor } from './failure-advice.ts'
import { fail, ok, type CheckFinding, warn } from './finding.ts'
import { page } from './pages.ts'
import { placeInMessage, placeOfProblem } from './place.ts'

/** A config of a workspace. */
export interface ConfigFile {
  readonly kind: ConfigKind
  /** Absolute. */
  readonly file: string
  /** Relative to the workspace. */
  readonly name: string
  /** `rollout` of `[experiment]`; undefined when it names none. */
  readonly rollout: string | undefined
  /** Problems that the platform would report. Keys of local trainings are none. */
  readonly problems: readonly string[]
  /** Names in `[secrets] required`; empty for a config with problems. */
  readonly secrets: readonly string[]
}

/** The configs of a workspace, in the order of their names. */
export async function workspaceConfigs(root: string): Promise<readonly ConfigFile[]> {
  const kinds = ['eval', 'training'] as const
  const found = await Promise.all(
    kinds.map(async (kind) => {
      const folder = path.join(root, 'configs', kind)
      const names = await readdir(folder).catch(() => [])
      // Editors have hidden files beside those that are open.
      const files = names.filter((file) => /^[^.].*\.toml$/.test(file)).toSorted()
      return Promise.all(files.map(async (file) => readConfig(root, kind, path.join(folder, file))))
    }),
  )
  return found.flat()
}

async function readConfig(root: string, kind: ConfigKind, file: string): Promise<ConfigFile> {
  const name = path.relative(root, file).replaceAll(path.sep, '/')
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const problem = `it cannot be read: ${errorMessage(error)}`
    return { kind, file, name, rollout: undefined, problems: [problem], secrets: [] }
  }
  // A regular expression also finds it in an invalid config.
  const [, , rollout] = /^[ \t]*rollout[ \t]*=[ \t]*(["'])(.+?)\1/m.exec(text) ?? []
  const problems = platformProblems(kind, text, { allowLocal: true })
  // Without problems it has the known form.
  const required = problems.length > 0 ? [] : configSections(kind, text)['secrets']?.['required']
  return { kind, file, name, rollout, problems, secrets: (required ?? []) as readonly string[] }
}

/** Checks that a config can be read here, and that the platform would accept it without the keys of local trainings. */
export async function configFinding({
  kind,
  file,
  name,
  problems,
}: ConfigFile): Promise<CheckFinding> {
  if (problems.length > 0) {
    const lines = problems.map((line) => `\n- ${line}`).join('')
    return fail('config', `The platform would refuse ${name}:${lines}`, {
      ...placeOfProblem(file, problems[0] ?? ''),
      advice: 'Correct the keys that are listed.',
      page: page('config'),
    })
  }
  // The platform checks the files of a training config.
  if (kind === 'training') return ok('config', name)
  try {
    await readEvalConfig(file)
    return ok('config', name)
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    const message = errorMessage(error)
    return fail('config', message, { ...placeInMessage(message), ...changeFor(error.code) })
  }
}

/** One finding for each name, also when several configs require it. */
export function* secretFindings(
  configs: readonly ConfigFile[],
  environment: NodeJS.ProcessEnv,
): Generator<CheckFinding> {
  const names = new Set(configs.flatMap(({ secrets }) => secrets))
  for (const name of [...names].toSorted()) {
    const where = configs
      .filter(({ secrets }) => secrets.includes(name))
      .map((config) => config.name)
    if (environment[name]) yield ok('secret', `${name} is set`)
    else {
      yield fail(
        'secret',
        `${name} is not set; named by ${where.join(', ')}.`,
        'Set it in the environment or in .env, or pass --secrets-file to the commands.',
      )
    }
  }
}

/** Time limit of a test call for 16 tokens. Milliseconds. */
const patienceMs = 30_000

/**
 * Checks that the policies of osmosis.toml can answer: loads modules, and looks up keys.
 *
 * @param online - whether to call each model once
 */
export async function policyFindings(
  workspace: string,
  environment: NodeJS.ProcessEnv,
  online: boolean,
): Promise<readonly CheckFinding[]> {
  try {
    const config = await readWorkspaceConfig(workspace)
    const findings: CheckFinding[] = []
    if (config.defaultPolicy === null) {
      findings.push(
        warn(
          'policy',
          'osmosis.toml has no default_policy, so local runs need --policy.',
          'Write default_policy = "<name>" above [policies.<name>], or pass --policy.',
        ),
      )
    }
    for (const [name, policy] of config.policies) {
      const open = async (): Promise<ChosenPolicy> => {
        const defaults = { workspace: config, folder: workspace, model: 'osmosis-rollout' }
        return openPolicy(policyChoice({ policy: name }, defaults), environment)
      }
      findings.push(await policyFinding(name, policy, open, online))
    }
    return findings
  } catch (error) {
    return [fail('policy', errorMessage(error))]
  }
}

async function policyFinding(
  name: string,
  policy: PolicyConfig,
  open: () => Promise<ChosenPolicy>,
  online: boolean,
): Promise<CheckFinding> {
  try {
    return await closing(await open(), async (chosen) => {
      if (policy.kind === 'module') return ok('policy', `${name}: ${policy.module} was loaded`)
      const key = policy.apiKeyEnv === null ? '' : `, ${policy.apiKeyEnv} is set`
      if (!online) return ok('policy', `${name}: not called without --online${key}`)
      if (policy.model === null)
        return ok('policy', `${name}: not called, because each config names its model${key}`)
      return answerFinding(name, await askedOnce(chosen))
    })
  } catch (error) {
    return fail('policy', `${name}: ${errorMessage(error)}`)
  }
}

/** The status, and the beginning of the answer. */
async function askedOnce({ policy }: ChosenPolicy): Promise<{ status: number; text: string }> {
  const answer = await policy.respond({
    rolloutId: 'doctor',
    sampleId: '',
    headers: {},
    body: { messages: [{ role: 'user', content: 'Say yes.' }], max_tokens: 16 },
    signal: AbortSignal.timeout(patienceMs),
  })
  return { status: answer.status, text: (await answer.text()).slice(0, 300) }
}

function answerFinding(
  name: string,
  { status, text }: { status: number; text: string },
): CheckFinding {
  if (status === 200) return ok('policy', `${name}: answered`)
  return fail('policy', `${name}: answered ${status}: ${text}`, adviceFor(status))
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403)
    return 'Check the key in the variable that api_key_env names.'
  if (status === 404) return 'Check base_url and model in osmosis.toml.'
  return 'Check that the endpoint runs at base_url in osmosis.toml.'
}
