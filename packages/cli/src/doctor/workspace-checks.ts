import { errorMessage, isOsmosisError } from '@osmosis/core'
import { readEvalConfig } from '@osmosis/eval'

import { fail, ok, type Finding } from '../findings.ts'
import { workspaceConfigs, type ConfigFile } from '../rollout-validate/validation-targets.ts'

/** Whether the configs of a workspace would be accepted, and the secrets are there that they name. */
export async function workspaceFindings(
  workspace: string,
  environment: NodeJS.ProcessEnv,
): Promise<readonly Finding[]> {
  const configs = await workspaceConfigs(workspace)
  const findings = await Promise.all(configs.map(async (config) => configFinding(config)))
  return [...findings, ...secretFindings(configs, environment)]
}

async function configFinding({ kind, file, name, problems }: ConfigFile): Promise<Finding> {
  if (problems.length > 0) {
    const lines = problems.map((line) => `\n- ${line}`).join('')
    return fail('config', `The platform would refuse ${name}:${lines}`)
  }
  // Of a training config, the platform looks at the files.
  if (kind === 'training') return ok('config', name)
  try {
    await readEvalConfig(file)
    return ok('config', name)
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    return fail('config', errorMessage(error))
  }
}

/** By name, whatever the config that wants it. */
function* secretFindings(
  configs: readonly ConfigFile[],
  environment: NodeJS.ProcessEnv,
): Generator<Finding> {
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
