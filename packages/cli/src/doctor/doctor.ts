import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'

import type { Command } from '@commander-js/extra-typings'
import { errorMessage } from '@osmosis/core'

import type { CheckFinding } from '../checks/finding.ts'
import { resolvePath, printJson, printOut, workingFolder } from '../command/command-context.ts'
import { completeEnvironment } from '../command/environment.ts'
import { endpointUrl, example, groups, type FlagsOf, type SetExitCode } from '../command/flags.ts'
import { invalid, refuseOneOf } from '../command/wrong-use.ts'
import { howToStart, nearestPackage, nearestWith } from '../inputs/nearest-project.ts'

function declareDoctor(program: Command) {
  return program
    .command('doctor')
    .description('check this machine and the workspace for problems')
    .optionsGroup(groups.run)
    .option('--online', 'also call each model of osmosis.toml once, for 16 tokens')
    .option('--fix', 'create missing folders of the workspace first')
    .optionsGroup(groups.model)
    .option(
      '--base-url <url>',
      'check only whether this endpoint gives a trainer what it needs: token ids, logprobs, tool calls, streams, prefixes, sampling',
      endpointUrl,
    )
    .option('--model <name>', 'name of the model at the endpoint')
    .option(
      '--api-key-env <name>',
      'environment variable with the key of the endpoint (default: no key is sent)',
    )
    .optionsGroup(groups.output)
    .option('--json', 'print one JSON object')
    .addHelpText('after', example('osmosis doctor --online'))
}

/** Adds `doctor`. */
export function addDoctorCommand(program: Command, setExitCode: SetExitCode): void {
  declareDoctor(program).action(async (flags) => {
    setExitCode(await diagnose(flags))
  })
}

/**
 * Checks this machine and the workspace of the working folder, and prints the findings. Resolves with the
 * exit code: 1 when a check failed, else 0. With `--base-url` it checks that endpoint only.
 *
 * @throws OsmosisError with code `invalid_config` for flags that do not apply
 */
async function diagnose(flags: FlagsOf<typeof declareDoctor>): Promise<number> {
  if (flags.baseUrl === undefined) {
    refuseOneOf(
      { '--model': flags.model, '--api-key-env': flags.apiKeyEnv },
      (flag) => `${flag} only applies to an endpoint: pass --base-url as well.`,
    )
  } else {
    refuseOneOf(
      { '--online': flags.online, '--fix': flags.fix },
      (flag) =>
        `${flag} and --base-url exclude each other: with --base-url only the endpoint is checked, and not the workspace.`,
    )
  }
  const { exitCodeOf, findingLines } = await import('../checks/finding.ts')
  const findings =
    flags.baseUrl === undefined ? await machineAndWorkspace(flags) : await endpointOf(flags)
  if (flags.json === true) printJson({ findings })
  else printOut(findingLines(findings))
  return exitCodeOf(findings)
}

async function endpointOf(flags: FlagsOf<typeof declareDoctor>): Promise<CheckFinding[]> {
  const { choosePolicy } = await import('../inputs/choose-policy.ts')
  const { endpointFindings } = await import('../checks/endpoint/endpoint-checks.ts')
  const { gatewaysOf, withGateways } = await import('../checks/endpoint/gateways.ts')
  const { closing } = await import('../command/process.ts')
  const gateways = new Set<string>()
  const policy = await choosePolicy(flags, completeEnvironment(), {
    onHeaders: (headers) => gatewaysOf(headers).forEach((name) => gateways.add(name)),
  })
  const findings = await closing(policy, endpointFindings)
  return withGateways(findings, [...gateways])
}

async function machineAndWorkspace({
  online,
  fix,
}: FlagsOf<typeof declareDoctor>): Promise<CheckFinding[]> {
  const { findWorkspaceRoot } = await import('@osmosis/eval')
  const { ok, warn } = await import('../checks/finding.ts')
  const { learnerFinding, machineFindings, packageFindings } =
    await import('../checks/installation-checks.ts')
  const { configFinding, policyFindings, secretFindings, workspaceConfigs } =
    await import('../checks/workspace-checks.ts')
  const environment = completeEnvironment()
  const toml = resolvePath('osmosis.toml')
  const created = fix === true ? await createFolders(await findWorkspaceRoot(toml)) : []
  const workspace = await findWorkspaceRoot(toml)
  const root = nearestPackage(workspace ?? workingFolder())
  const findings: CheckFinding[] = [
    ok('Node.js', process.versions.node),
    ...(root === undefined ? [] : packageFindings(root)),
    ...(await machineFindings(workspace ?? workingFolder(), environment)),
  ]
  if (workspace === undefined) {
    findings.push(
      warn(
        'workspace',
        'No folder here or above has both rollouts/ and data/.',
        `Start one: ${howToStart(workingFolder())}`,
      ),
    )
  } else {
    const configs = await workspaceConfigs(workspace)
    const isTrained = configs.some(({ kind }) => kind === 'training')
    findings.push(
      ok('workspace', workspace),
      ...created.map((folder) => ok('workspace', `created ${folder}/`)),
      ...(await Promise.all(configs.map(async (config) => configFinding(config)))),
      ...(isTrained ? [await learnerFinding(environment)] : []),
      ...secretFindings(configs, environment),
      ...(await policyFindings(workspace, environment, online === true)),
    )
  }
  return findings
}

const workspaceFolders = ['rollouts', 'configs/training', 'configs/eval', 'data']

/** Creates missing folders of the workspace, and resolves with their names. */
async function createFolders(workspace: string | undefined): Promise<string[]> {
  const root =
    workspace ??
    nearestWith('osmosis.toml', workingFolder()) ??
    nearestPackage(workingFolder()) ??
    workingFolder()
  const missing = workspaceFolders.filter((folder) => !existsSync(path.join(root, folder)))
  try {
    for (const folder of missing) await mkdir(path.join(root, folder), { recursive: true })
  } catch (cause) {
    throw invalid(
      `Cannot create the folders of a workspace in ${root}: ${errorMessage(cause)}`,
      cause,
    )
  }
  return missing
}
