import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

import { onTestFinished } from 'vitest'

/** Creates a folder with these files, by relative path, and removes it after the test. */
export async function temporaryFolder(
  files: Readonly<Record<string, string | Uint8Array>> = {},
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'osmosis-test-'))
  onTestFinished(async () => rm(folder, { recursive: true, force: true }))
  for (const [path, content] of Object.entries(files)) {
    const file = join(folder, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
  }
  return folder
}
