import { isOsmosisError } from '@osmosis/core'

import {
  printError,
  printOut,
  redaction,
  standardError,
  standardOutput,
} from '../../command/command-context.ts'
import { withoutControls } from '../../command/terminal-controls.ts'
import { plain, tableLines } from '../../command/terminal-text.ts'
import type { JsonObject, Page } from '../client/answers.ts'
import { PlatformError } from '../client/platform-error.ts'

/** The result of a command that changes something. */
interface Operation {
  /** `success`, or another outcome, e.g. `cancelled`. */
  readonly status: string
  /** As in `eval.submit`. */
  readonly operation: string
  readonly resource?: JsonObject
  readonly message: string
  /** Next steps, for `--json`. */
  readonly nextSteps?: readonly JsonObject[]
}

/** A column of a list: its heading, and a key of the items. */
export type Column = readonly [head: string, key: string]

/**
 * Prints the output of a command: human-readable text or one JSON document on stdout; errors, warnings and
 * progress on stderr. It removes the secrets of the command.
 */
export class CommandOutput {
  readonly json: boolean
  /** Keys that every result has: the workspace of the command. */
  place: JsonObject = {}
  readonly #command: string
  readonly #version: string

  constructor(options: { command: string; version: string; json: boolean }) {
    this.#command = options.command
    this.#version = options.version
    this.json = options.json
  }

  list({ items, totalCount, hasMore, nextOffset }: Page, columns: readonly Column[]): void {
    if (this.json) {
      this.#document({ items, total_count: totalCount, has_more: hasMore, next_offset: nextOffset })
      return
    }
    const rows = items.map((item) => columns.map(([, key]) => shown(item[key])))
    const heads = columns.map(([head]) => head)
    for (const line of tableLines([heads, ...rows])) this.#line(line)
    if (rows.length === 0) this.note('No items.')
    if (hasMore) this.note(`There is more: --offset ${nextOffset}, or --all.`)
  }

  /** Prints lines of a log, with the cursor for more; null after the last line. */
  lines(items: readonly JsonObject[], texts: readonly string[], nextCursor: string | null): void {
    if (this.json) {
      const hasMore = nextCursor !== null
      const end = { total_count: items.length, has_more: hasMore, next_offset: null }
      this.#document({ items, ...end, next_cursor: nextCursor })
      return
    }
    for (const text of texts) this.#line(text)
    if (texts.length === 0) this.note('The log is empty.')
    if (nextCursor !== null) this.note(`There is more: --cursor ${nextCursor}`)
  }

  /** Prints one item, with its human-readable lines; default: its keys with their values. */
  detail(data: JsonObject, lines: readonly string[] = describe(data)): void {
    if (this.json) this.#document({ data })
    else for (const line of lines) this.#line(line)
  }

  /** The document that `detail` prints with `--json`, as text for a file. */
  detailText(data: JsonObject): string {
    return `${toJson({ schema_version: 1, data, ...this.place })}\n`
  }

  operation({ status, operation, resource, message, nextSteps }: Operation): void {
    if (!this.json) {
      this.#line(message)
      return
    }
    this.#document({
      status,
      operation,
      ...(resource && { resource }),
      message,
      ...(nextSteps && { next_steps_structured: nextSteps }),
    })
  }

  /** Prints human-readable information that is not the result. */
  note(text: string): void {
    if (!this.json) printError(`${clean(text)}\n`)
  }

  warn(code: string, message: string): void {
    this.#report({ warning: { code, message } }, `warning: ${message}`)
  }

  fail(error: unknown): void {
    const { code, message, details } = toReport(error)
    const body = { command: this.#command, error: { code, message, details } }
    this.#report(body, [`error: ${message}`, ...issueLines(details['issues'])].join('\n'))
  }

  #report(body: JsonObject, text: string): void {
    const { command, ...rest } = body
    const document = {
      schema_version: 1,
      ...(command !== undefined && { command }),
      cli_version: this.#version,
      ...rest,
    }
    if (this.json) standardError().write(`${toJson(document)}\n`)
    else printError(`${clean(text)}\n`)
  }

  #document(body: JsonObject): void {
    standardOutput().write(`${toJson({ schema_version: 1, ...body, ...this.place })}\n`)
  }

  #line(text: string): void {
    printOut(`${clean(text)}\n`)
  }
}

/** JSON without the secrets of the command; ids and names in it stay as they are. What controls a terminal is escaped. */
function toJson(body: JsonObject): string {
  return withoutControls(JSON.stringify(redaction().data(body)))
}

/** Text from elsewhere for a terminal, without the secrets of the command. */
function clean(text: string): string {
  return plain(redaction().text(text))
}

function toReport(error: unknown): { code: string; message: string; details: JsonObject } {
  if (error instanceof PlatformError) {
    return { code: error.platformCode, message: error.message, details: error.details }
  }
  if (isOsmosisError(error)) {
    return { code: 'VALIDATION', message: error.message, details: { sdk_code: error.code } }
  }
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  return { code: 'INTERNAL', message, details: { exception_type: name } }
}

function issueLines(issues: unknown): string[] {
  if (!Array.isArray(issues)) return []
  return issues.map((issue: unknown) => {
    if (typeof issue !== 'object' || issue === null) return `- ${shown(issue)}`
    const { key, message, key_correction: correction } = issue as JsonObject
    const advice = typeof correction === 'string' ? ` (did you mean ${correction}?)` : ''
    return `- ${shown(key)}: ${shown(message)}${advice}`
  })
}

/** The keys of an item with their values, one per line. */
export function describe(data: JsonObject): string[] {
  const entries = Object.entries(data).filter(([, value]) => value !== null && value !== undefined)
  return tableLines(entries.map(([key, value]) => [key, shown(value)]))
}

/** A value as human-readable text on one line. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return ''
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.replaceAll(/\s+/g, ' ')
}
