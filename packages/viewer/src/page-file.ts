import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

let page: Promise<string> | undefined

/**
 * The page as HTML. A published package has it beside this file. In the workspace it is built when it is
 * first needed, so that it cannot be out of date.
 */
export function readPage(): Promise<string> {
  return (page ??= loadPage())
}

async function loadPage(): Promise<string> {
  const built = new URL('page.html', import.meta.url)
  if (existsSync(built)) return readFile(built, 'utf8')
  // In a separate process: esbuild fails when the folder from which it was loaded was removed.
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  const run = promisify(execFile)
  const { stdout } = await run(process.execPath, ['build/write-page.ts'], {
    cwd,
    maxBuffer: 2 ** 24,
  })
  return stdout
}
