import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { PlatformError } from '@osmosis/platform'

/** What an entrypoint turned out to be. */
export type PreflightReport =
  | { readonly kind: 'workflow' | 'agent-loop'; readonly missing: readonly string[] }
  | { readonly kind: 'failed'; readonly message: string; readonly isDependency: boolean }

const limitMs = 120_000

/**
 * Loads an entrypoint in a process of its own, and resolves with what should be known before it is
 * submitted.
 *
 * @param file - absolute
 * @throws PlatformError with code `VALIDATION` when it cannot be loaded, or lacks its workflow or
 * grader
 */
export async function preflight(
  file: string,
  options: {
    readonly workspace: string
    readonly environment: NodeJS.ProcessEnv
    readonly signal: AbortSignal
  },
): Promise<string[]> {
  const name = path.relative(options.workspace, file)
  const report = await preflightReport(file, options)
  if (report.kind === 'failed') {
    if (!report.isDependency) throw failed(name, report.message)
    return [`${name} was not checked: it needs a package that is not installed here.`]
  }
  if (report.missing.includes('grader')) {
    throw failed(name, 'it exports no grader, which runs on the platform need')
  }
  return report.missing.map((part) => `${name} exports no ${part}; defaults are taken.`)
}

function failed(name: string, why: string): PlatformError {
  return new PlatformError('VALIDATION', `${name}: preflight failed: ${why}`)
}

/**
 * Loads an entrypoint in a process of its own, and resolves with what it turned out to be.
 *
 * @param file - absolute; may name an export, as in `main.ts:agentLoop`
 */
export async function preflightReport(
  file: string,
  { workspace, environment, signal }: Parameters<typeof preflight>[1],
): Promise<PreflightReport> {
  const source = path.join(import.meta.dirname, 'preflight-child.ts')
  const child = spawn(
    process.execPath,
    [...process.execArgv, existsSync(source) ? source : source.replace(/ts$/, 'js'), file],
    {
      cwd: workspace,
      // The login is nothing that code of the workspace needs.
      env: { ...environment, OSMOSIS_TOKEN: undefined },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
      killSignal: 'SIGKILL',
    },
  )
  return new Promise((resolve, reject) => {
    child.once('message', (message) => resolve(message as PreflightReport))
    child.once('error', (error) => {
      if (signal.aborted) reject(signal.reason as Error)
      else resolve({ kind: 'failed', message: error.message, isDependency: false })
    })
    child.once('close', (code, end) => {
      const how = end ?? `code ${code}`
      const message = `its process ended with ${how} while it was loaded`
      resolve({ kind: 'failed', message, isDependency: false })
    })
  })
}
