import { existsSync } from 'node:fs'
import path from 'node:path'

import { findWorkspaceRoot } from '@osmosis/eval'

import { readEnvironment } from '../environment.ts'
import { exitCodeOf, findingLines, ok, warn, type Finding } from '../findings.ts'
import { packageFindings } from './package-checks.ts'
import type { DoctorFlags } from './doctor-options.ts'
import { machineFindings } from './machine-checks.ts'
import { policyFindings } from './policy-checks.ts'
import { workspaceFindings } from './workspace-checks.ts'
import { fromHere, printJson, printOut, workingFolder } from '../surroundings.ts'

/**
 * Looks over this machine and the workspace of the working folder, and prints what it finds. Resolves
 * with the exit code: 1 when something does not work, else 0.
 */
export async function doctorCommand({ online = false, json }: DoctorFlags): Promise<number> {
  const environment = readEnvironment()
  const workspace = await findWorkspaceRoot(fromHere('osmosis.toml'))
  const root = nearestPackage(workspace ?? workingFolder())
  const findings: Finding[] = [
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
      ...(await workspaceFindings(workspace, environment)),
      ...(await policyFindings(workspace, environment, online)),
    )
  }
  if (json === true) printJson({ findings })
  else printOut(findingLines(findings))
  return exitCodeOf(findings)
}

function nearestPackage(folder: string): string | undefined {
  if (existsSync(path.join(folder, 'package.json'))) return folder
  const above = path.dirname(folder)
  return above === folder ? undefined : nearestPackage(above)
}
