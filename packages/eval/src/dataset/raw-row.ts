import { parseExactJson } from '@osmosis/protocol/wire'

/** A row of a file of any format. */
export interface RawRow {
  /** Its place, for messages: `line 3` of a text file, `row 2` (from 0) of a Parquet file. */
  readonly place: string
  /** By column name as written. Values are in the form of `parseExactJson`; null when empty. */
  readonly cells: Readonly<Record<string, unknown>>
}

/**
 * Reads all rows of a file. Problems of single rows or columns are added to `problems`.
 *
 * @throws Error when nothing can be read
 */
export type RowReader = (file: string, problems: string[]) => Promise<RawRow[]>

/** Data that cannot be used. The message does not include its place. */
export class DataProblem extends Error {
  override readonly name = 'DataProblem'
}

/**
 * Parses JSON of a row in the form of `parseExactJson`.
 *
 * @param within - where the text stands, for the message: '' or a column and a point
 * @throws SyntaxError
 * @throws DataProblem for a key that is there twice
 */
export function parseCellJson(text: string, within = ''): unknown {
  const value = parseExactJson(text)
  const key = repeatedKey(text)
  if (key === undefined) return value
  throw keyTwice(within + key)
}

export function keyTwice(key: string): DataProblem {
  return new DataProblem(`the key ${JSON.stringify(key)} is there twice; keep one of them`)
}

/** What `read` returns; undefined when it throws a {@link DataProblem}, which is added to `problems`. */
export function noting<T>(problems: string[], place: string, read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    // What recurs into a value has no other end.
    const isDeep = error instanceof RangeError && /call stack/i.test(error.message)
    if (!isDeep && !(error instanceof DataProblem)) throw error
    const why = isDeep
      ? 'is nested too deeply to be read; write the inner part as text'
      : error.message
    problems.push(`${place}: ${why}`)
    return undefined
  }
}

/** A table of more columns is a mistake, such as a transposed one, and each row would have all of them. */
const mostColumns = 10_000
/** Bytes. A text of JavaScript has at most 512 MiB, and a prompt far less. */
const largestCell = 64 * 2 ** 20

/** The problem of a table that is too wide, instead of those of its columns. */
function widthProblems(columns: number): string[] {
  if (columns <= mostColumns) return []
  return [
    `there are ${columns.toLocaleString('en')} columns, and at most ${mostColumns.toLocaleString('en')} are read; put what varies into one column of JSON, such as metadata`,
  ]
}

/** @throws DataProblem for a cell that is too large */
export function assertCellSize(bytes: number): void {
  if (bytes <= largestCell) return
  throw new DataProblem(
    `a cell of ${Math.ceil(bytes / 2 ** 20)} MiB, and at most ${largestCell / 2 ** 20} MiB are read; store large data in files, and their names in the row`,
  )
}

const meanings = ['system_prompt', 'user_prompt', 'ground_truth', 'label', 'metadata'] as const

/** The meaning of a column; also its name, in any case and with spaces around it. */
export type ColumnMeaning = (typeof meanings)[number]

/** The columns with a meaning. */
export interface DatasetColumns {
  /** Their names as written. */
  readonly names: ReadonlyMap<ColumnMeaning, string>
  /** The columns that are the fields of the metadata, in place of one column with an object. */
  readonly metadataFields: readonly string[]
  /** The same of the reference answer. */
  readonly labelFields: readonly string[]
}

/** Names of columns that mean something under another name, as `[columns]` of a config has them. */
export interface ColumnNames {
  /** The user prompt. Default: `user_prompt`. */
  readonly prompt?: string | undefined
  /**
   * The reference answer, or the columns that are its fields, under their own names; the answer is then the JSON text of an object.
   * Default: `ground_truth` or `label`.
   */
  readonly label?: string | readonly string[] | undefined
  /** The system prompt. Default: `system_prompt`. */
  readonly system?: string | undefined
  /** A column with an object, or the columns that are its fields, under their own names. Default: `metadata`. */
  readonly metadata?: string | readonly string[] | undefined
}

/** The meaning that each of {@link ColumnNames} gives. */
const meaningOf = {
  prompt: 'user_prompt',
  label: 'ground_truth',
  system: 'system_prompt',
  metadata: 'metadata',
} as const satisfies Record<keyof ColumnNames, ColumnMeaning>

/** The problems of the column names of a file. */
export function nameProblems(names: readonly string[]): string[] {
  const tooWide = widthProblems(names.length)
  if (tooWide.length > 0) return tooWide
  const seen = new Set<string>()
  return names.flatMap((name, index) => {
    if (name.trim() === '') return [`column ${index + 1} has no name; give it one or remove it`]
    if (!seen.has(name)) {
      seen.add(name)
      return []
    }
    return [`there are two columns ${JSON.stringify(name)}; rename or remove one of them`]
  })
}

/**
 * Finds the columns of all rows: those that are named, and by their own names the others. Two columns with the
 * same meaning are a problem, and so are missing ones, with the advice of `advise` about the names.
 */
export function findColumns(
  rows: readonly RawRow[],
  problems: string[],
  advise: (names: readonly string[]) => string,
  named: ColumnNames = {},
): DatasetColumns {
  const names = new Set<string>()
  for (const { cells } of rows) for (const name in cells) names.add(name)
  const columns = new Map<ColumnMeaning, string>()
  const taken = new Set<ColumnMeaning>()
  for (const [key, meaning] of Object.entries(meaningOf) as [keyof ColumnNames, ColumnMeaning][]) {
    const given = named[key]
    if (given === undefined) continue
    taken.add(meaning)
    if (typeof given === 'string') columns.set(meaning, given)
    for (const name of [given].flat()) {
      if (names.has(name) || rows.length === 0) continue
      problems.push(
        `columns.${key}: there is no column ${JSON.stringify(name)}. ${found([...names])}`,
      )
    }
  }
  // Another name for the answer leaves no room for the older one of its default names.
  if (taken.has('ground_truth')) taken.add('label')
  for (const name of names) {
    const meaning = meanings.find((candidate) => candidate === name.trim().toLowerCase())
    if (meaning === undefined || taken.has(meaning)) continue
    const other = columns.get(meaning)
    if (other === undefined) columns.set(meaning, name)
    else problems.push(`columns "${other}" and "${name}" both mean ${meaning}; keep one of them`)
  }
  const all: DatasetColumns = {
    names: columns,
    metadataFields: typeof named.metadata === 'object' ? named.metadata : [],
    labelFields: typeof named.label === 'object' ? named.label : [],
  }
  if (problems.length === 0) problems.push(...missingColumns(all, [...names], advise))
  return all
}

/** Whether rows may have metadata, and so may lack a prompt or an answer. */
export function haveMetadata({ names, metadataFields }: DatasetColumns): boolean {
  return names.has('metadata') || metadataFields.length > 0
}

function missingColumns(
  columns: DatasetColumns,
  names: readonly string[],
  advise: (names: readonly string[]) => string,
): string[] {
  if (haveMetadata(columns)) return []
  const has = (meaning: ColumnMeaning): boolean => columns.names.has(meaning)
  const missing = [
    ...(has('user_prompt') ? [] : ['user_prompt']),
    ...(has('ground_truth') || has('label') || columns.labelFields.length > 0
      ? []
      : ['ground_truth']),
  ]
  if (missing.length === 0) return []
  const advice = advise(names) || namingAdvice(missing, names)
  return [
    `missing required columns: ${missing.join(', ')}. Datasets without a metadata column must include user_prompt and ground_truth (label is accepted as an alias). ${found(names)}${advice && ` ${advice}`}`,
  ]
}

/** Rows of a program that exists rarely have our names, and need not change for them. */
function namingAdvice(missing: readonly string[], names: readonly string[]): string {
  if (names.length === 0) return ''
  const keys = missing.map((name) => (name === 'user_prompt' ? 'prompt' : 'label'))
  return `If other columns have them, the rows can stay: name those columns in [columns] of a config, as ${keys.map((key) => `${key} = "…"`).join(' and ')}.`
}

function found(names: readonly string[]): string {
  return `Found: ${names.map((name) => JSON.stringify(name)).join(', ') || 'none'}.`
}

interface OpenValue {
  /** The keys of an object so far; undefined for an array. */
  readonly keys: Set<string> | undefined
  key: string
  isKeyNext: boolean
}

/**
 * The first key that an object of a JSON text has twice, below the keys of the objects around it: `metadata.level`.
 * Undefined when each key is there once. The parser of JavaScript would keep the last value without a word.
 *
 * @param json - text that was parsed before
 */
function repeatedKey(json: string): string | undefined {
  const open: OpenValue[] = []
  for (let at = 0; at < json.length; at += 1) {
    const here = open.at(-1)
    switch (json.charAt(at)) {
      case '{':
        open.push({ keys: new Set(), key: '', isKeyNext: true })
        break
      case '[':
        open.push({ keys: undefined, key: '', isKeyNext: false })
        break
      case '}':
      case ']':
        open.pop()
        break
      case ',':
        if (here?.keys) here.isKeyNext = true
        break
      case '"': {
        const end = endOfText(json, at)
        if (here?.keys && here.isKeyNext) {
          here.key = JSON.parse(json.slice(at, end + 1)) as string
          here.isKeyNext = false
          if (here.keys.has(here.key)) return pathOf(open)
          here.keys.add(here.key)
        }
        at = end
        break
      }
      default:
    }
  }
  return undefined
}

function pathOf(open: readonly OpenValue[]): string {
  return open.flatMap(({ keys, key }) => (keys ? [key] : [])).join('.')
}

/** The index of the closing quote of the text that opens at `start`. */
function endOfText(json: string, start: number): number {
  let end = start
  let backslashes: number
  do {
    end = json.indexOf('"', end + 1)
    backslashes = 0
    while (json[end - 1 - backslashes] === '\\') backslashes += 1
  } while (backslashes % 2 === 1)
  return end
}
