import { stat } from 'node:fs/promises'
import path from 'node:path'

import { isOsmosisError } from '@osmosis/core'
import {
  findWorkspaceRoot,
  readDataset,
  readEvalConfig,
  readTrainingConfig,
  type ColumnNames,
  type DatasetRow,
} from '@osmosis/eval'
import { readTextLines } from '@osmosis/protocol/files'

import { workspaceConfigs } from '../../checks/workspace-checks.ts'
import { datasetFit, type DatasetFit } from '../../child/entrypoint-process.ts'
import { displayPath, resolvePath, workingFolder } from '../../command/command-context.ts'
import { readEnvironment } from '../../command/environment.ts'
import { outputWidth, wrapped } from '../../command/terminal-text.ts'
import { wrongUse } from '../client/platform-error.ts'
import type { PlatformSession } from '../session/platform-session.ts'

/** Checks a file by the rules of the platform; exit code 1 when it breaks one. */
export async function validateFile(
  { output, signal }: PlatformSession,
  file: string,
  entrypoint: string | undefined,
): Promise<number> {
  const verdict = await validateDataset(
    file,
    entrypoint === undefined
      ? undefined
      : (rows) =>
          datasetFit(entrypoint, rows, {
            folder: workingFolder(),
            environment: readEnvironment(),
            signal,
          }),
  )
  const { valid, errors, warnings } = verdict
  const sentences = [
    valid ? `${file} is a valid dataset.` : `${file} is not a valid dataset:`,
    ...errors.map((error) => `- ${error}`),
    ...warnings.map((warning) => `warning: ${warning}`),
  ]
  output.detail(
    { ...verdict },
    sentences.flatMap((sentence) => wrapped(sentence, outputWidth())),
  )
  return valid ? 0 : 1
}

/** The result of checking a file before its upload; the keys are those of `--json`. */
interface DatasetVerdict {
  readonly valid: boolean
  /** Path from the command line. */
  readonly file: string
  readonly file_name: string
  /** File extension without the dot. */
  readonly extension: string
  /** Bytes. */
  readonly file_size: number
  readonly errors: readonly string[]
  readonly warnings: readonly string[]
}

const extensions = ['csv', 'jsonl', 'parquet']
const largestBytes = 5 * 1024 ** 3
const fewestRows = 4
const mostErrors = 5

/**
 * Checks a file by the rules of the platform.
 *
 * @param fitOf - checks the rows by the schema of an entrypoint. Default: no such check
 * @throws PlatformError with code `VALIDATION` when there is no such file
 */
export async function validateDataset(
  file: string,
  fitOf?: (rows: readonly DatasetRow[]) => Promise<DatasetFit>,
): Promise<DatasetVerdict> {
  const found = await stat(resolvePath(file)).catch(() => undefined)
  if (!found?.isFile()) throw wrongUse(`${file} does not exist, or is not a file.`)
  const extension = path.extname(file).slice(1).toLowerCase()
  const errors: string[] = []
  const warnings: string[] = []
  if (!extensions.includes(extension)) {
    errors.push(`the platform takes .csv, .jsonl and .parquet files, got ${path.basename(file)}`)
  } else if (found.size === 0) errors.push('the file is empty')
  else if (found.size > largestBytes) errors.push(`the file is larger than ${largestBytes} bytes`)
  else {
    const { rows, problems } = await readRows(file)
    const lacksColumns = problems.some((one) => one.startsWith('missing required columns'))
    const here = lacksColumns ? await readWithConfig(file) : { warnings: [] }
    // Read again as rollouts get it, with integers beyond 2^53 as text.
    const own = problems.length === 0 ? await readDataset(displayPath(file)) : here.rows
    const fit = await fitOf?.(own ?? [])
    errors.push(...problems, ...(fit?.problems ?? []))
    warnings.push(...here.warnings)
    warnings.push(...(fit?.warnings ?? []))
    if (problems.length === 0) {
      const count = rows.length
      if (count < fewestRows) errors.push(`there are ${count} rows, fewer than ${fewestRows}`)
      errors.push(...metadataErrors(rows))
      if (extension === 'jsonl') errors.push(...(await keyErrors(file)))
    }
  }
  return {
    valid: errors.length === 0,
    file,
    file_name: path.basename(file),
    extension,
    file_size: found.size,
    errors: errors.slice(0, mostErrors),
    warnings,
  }
}

/**
 * What evaluations and trainings on this machine read of a file without the usual names: a config of the workspace names its columns.
 *
 * @returns no rows without such a config, and where the file does not fit it
 */
async function readWithConfig(file: string): Promise<{
  readonly rows?: readonly DatasetRow[]
  readonly warnings: readonly string[]
}> {
  const usual =
    'The platform reads no [columns] of a config, so its datasets need the usual names. For evaluations and trainings on this machine,'
  const config = await configWithColumns(resolvePath(file))
  if (config === undefined) {
    const advice = 'name the columns in a config, with which osmosis validate checks the rows.'
    return { warnings: [`${usual} ${advice}`] }
  }
  const { name, columns } = config
  const { rows, problems } = await readRows(file, { columns })
  if (problems.length > 0) {
    return { warnings: problems.map((problem) => `With the [columns] of ${name}: ${problem}`) }
  }
  return { rows, warnings: [`${usual} the [columns] of ${name} fit all ${rows.length} rows.`] }
}

/** The first config of the workspace that names the columns of this dataset; undefined without one. */
async function configWithColumns(
  datasetFile: string,
): Promise<{ readonly name: string; readonly columns: ColumnNames } | undefined> {
  const root = await findWorkspaceRoot(datasetFile)
  if (root === undefined) return undefined
  for (const { kind, file, name } of await workspaceConfigs(root)) {
    try {
      const read = kind === 'eval' ? readEvalConfig : readTrainingConfig
      const { columns, datasetFile: named } = (await read(file)).experiment
      if (named === datasetFile && Object.keys(columns).length > 0) return { name, columns }
    } catch (error) {
      if (!isOsmosisError(error)) throw error
    }
  }
  return undefined
}

async function readRows(
  file: string,
  options: Parameters<typeof readDataset>[1] = { largeIntegers: 'bigint' },
): Promise<{ rows: readonly DatasetRow[]; problems: readonly string[] }> {
  try {
    return { rows: await readDataset(displayPath(file), options), problems: [] }
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    // The first line names the file; the other lines are the problems.
    const [first = '', ...lines] = error.message.split('\n')
    const problems = lines.length === 0 ? [first] : lines.map((line) => line.replace(/^- /, ''))
    return { rows: [], problems }
  }
}

/** Either all rows have metadata or none, and a path has the same type in all rows. */
function metadataErrors(rows: readonly DatasetRow[]): string[] {
  if (rows.every(({ metadata }) => metadata === null)) return []
  const errors: string[] = []
  const types = new Map<string, string>()
  for (const { metadata, sourceRowIndex: row } of rows) {
    if (metadata === null) errors.push(`row ${row}: metadata must be an object that is not empty`)
    else
      visit(metadata, 'metadata', (at, type, value) => {
        const expected = types.get(at) ?? type
        types.set(at, expected)
        if (typeof value === 'bigint' && BigInt.asIntN(64, value) !== value) {
          errors.push(`row ${row}: ${at} is ${value}, which is not a 64-bit integer`)
        } else if (type === 'empty object') errors.push(`row ${row}: ${at} is an empty object`)
        else if (type !== expected) {
          errors.push(`row ${row}: ${at} is of type ${type}, and of type ${expected} above`)
        }
      })
    if (errors.length >= mostErrors) break
  }
  return errors
}

function visit(
  value: unknown,
  at: string,
  see: (at: string, type: string, value: unknown) => void,
): void {
  if (value === null) return
  if (Array.isArray(value)) {
    see(at, 'array', value)
    for (const item of value) visit(item, `${at}[]`, see)
  } else if (typeof value === 'object') {
    const entries = Object.entries(value)
    see(at, entries.length === 0 ? 'empty object' : 'object', value)
    for (const [key, item] of entries) visit(item, `${at}.${key}`, see)
  } else see(at, typeof value === 'bigint' ? 'number' : typeof value, value)
}

/** All lines are known to be objects. */
async function keyErrors(file: string): Promise<string[]> {
  const errors: string[] = []
  let expected: string | undefined
  for await (const { number, bytes } of readTextLines(displayPath(file))) {
    const text = bytes.toString().trim()
    if (text === '') continue
    const keys = Object.keys(JSON.parse(text) as object)
      .toSorted()
      .join(', ')
    expected ??= keys
    if (keys !== expected) errors.push(`line ${number}: has ${keys}, and lines above ${expected}`)
    if (errors.length >= mostErrors) break
  }
  return errors
}
