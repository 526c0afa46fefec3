import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { findWorkspaceRoot } from '@osmosis/eval'

import { readEnvironment } from '../inputs/environment.ts'
import { exitCodeOf, findingLines, ok, warn, type CheckFinding } from '../command/findings.ts'
import { packageFindings } from './package-checks.ts'
import type { DoctorFlags } from './doctor.ts'
import { machineFindings } from './machine-checks.ts'
import { policyFindings, workspaceFindings } from './workspace-checks.ts'
import { fromHere, printJson, printOut, workingFolder } from '../command/surroundings.ts'

/**
 * Looks over this machine and the workspace of the working folder, and prints what it finds. Resolves
 * with the exit code: 1 when something does not work, else 0.
 */
export async function doctorCommand({ online, fix, json }: DoctorFlags): Promise<number> {
  const environment = readEnvironment()
  const created = fix === true ? await createFolders() : []
  const workspace = await findWorkspaceRoot(fromHere('osmosis.toml'))
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
        'Start one: npm create @osmosis@latest',
      ),
    )
  } else {
    findings.push(
      ok('workspace', workspace),
      ...created.map((folder) => ok('workspace', `created ${folder}/`)),
      ...(await workspaceFindings(workspace, environment)),
      ...(await policyFindings(workspace, environment, online === true)),
    )
  }
  if (json === true) printJson({ findings })
  else printOut(findingLines(findings))
  return exitCodeOf(findings)
}

const workspaceFolders = ['rollouts', 'configs/training', 'configs/eval', 'data']

/** Creates what is missing of a workspace around the working folder, and resolves with the names. */
async function createFolders(): Promise<string[]> {
  const root =
    (await findWorkspaceRoot(fromHere('osmosis.toml'))) ??
    nearestWith('osmosis.toml', workingFolder()) ??
    nearestPackage(workingFolder()) ??
    workingFolder()
  const missing = workspaceFolders.filter((folder) => !existsSync(path.join(root, folder)))
  try {
    for (const folder of missing) await mkdir(path.join(root, folder), { recursive: true })
  } catch (cause) {
    const message = `Cannot create the folders of a workspace in ${root}: ${errorMessage(cause)}`
    throw new OsmosisError('invalid_config', message, { cause })
  }
  return missing
}

function nearestPackage(folder: string): string | undefined {
  return nearestWith('package.json', folder)
}

function nearestWith(file: string, folder: string): string | undefined {
  if (existsSync(path.join(folder, file))) return folder
  const above = path.dirname(folder)
  return above === folder ? undefined : nearestWith(file, above)
}
