import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

/** Set by systems and by Osmosis itself, wherever a rollout runs. */
const common =
  /^(?:_?OSMOSIS_.*|ROLLOUT_PORT|NODE_.*|CI|DEBUG|HOME|LANG|LOGNAME|PATH|PWD|SHELL|TEMP|TERM|TMP|TMPDIR|TZ|USER)$/

/**
 * Names of variables that the code of a rollout reads by name, as `process.env.NAME` and the like,
 * without those that are declared. What packages read is not seen, nor are names that are computed.
 */
export async function undeclaredVariables(
  folder: string,
  declared: readonly string[],
): Promise<readonly string[]> {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const sources = files
    .filter((entry) => entry.isFile() && /(?<!\.test)\.[cm]?[jt]sx?$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => !path.relative(folder, file).split(path.sep).includes('node_modules'))
  const texts = await Promise.all(sources.map(async (file) => readFile(file, 'utf8')))
  const names = texts.flatMap((text) =>
    [...text.matchAll(/\bprocess\.env(?:\.([A-Za-z_]\w*)|\[\s*(['"])([A-Za-z_]\w*)\2\s*\])/g)].map(
      ([, dotted, , quoted]) => dotted ?? quoted ?? '',
    ),
  )
  const known = new Set(declared)
  return [...new Set(names)].filter((name) => !known.has(name) && !common.test(name)).toSorted()
}
