import { outputWidth, styled, wrapped } from '../command/terminal-text.ts'

/** The result of a check. */
export interface CheckFinding {
  readonly level: 'ok' | 'warn' | 'fail'
  /** Name of the check, in a word or two. */
  readonly check: string
  readonly message: string
  /** Where its cause is, relative to the working folder if it lies in it. */
  readonly file?: string
  /** Counted from 1. */
  readonly line?: number
  /** How to fix it. */
  readonly advice?: string
  /** The page about it, as a path from the folder of the project. */
  readonly page?: string
}

/** What a user needs to mend a problem; what is undefined is not known. */
export interface FindingDetails {
  readonly file?: string | undefined
  readonly line?: number | undefined
  readonly advice?: string | undefined
  readonly page?: string | undefined
}

/** A check that passed. */
export function ok(check: string, message: string): CheckFinding {
  return { level: 'ok', check, message }
}

/**
 * Something that works, but may be unintended.
 *
 * @param details - a text is the advice
 */
export function warn(
  check: string,
  message: string,
  details?: string | FindingDetails,
): CheckFinding {
  return { level: 'warn', check, message, ...known(details) }
}

/**
 * Something that does not work.
 *
 * @param details - a text is the advice
 */
export function fail(
  check: string,
  message: string,
  details?: string | FindingDetails,
): CheckFinding {
  return { level: 'fail', check, message, ...known(details) }
}

function known(details: string | FindingDetails = {}): Partial<CheckFinding> {
  const { file, line, advice, page } = typeof details === 'string' ? { advice: details } : details
  return {
    ...(file === undefined ? {} : { file }),
    ...(line === undefined ? {} : { line }),
    ...(advice === undefined ? {} : { advice }),
    ...(page === undefined ? {} : { page }),
  }
}

const styles = { ok: 'green', warn: 'yellow', fail: 'red' } as const

/** Human-readable findings, each with its place, the advice and the page below it. */
export function findingLines(findings: readonly CheckFinding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const indent = ' '.repeat(width + 8)
  return findings
    .map(({ level, check, message, file, line, advice, page }) => {
      const texts = [
        message,
        ...(file === undefined ? [] : [`at ${file}${line === undefined ? '' : `:${line}`}`]),
        ...(advice === undefined ? [] : [`→ ${advice}`]),
        ...(page === undefined ? [] : [`see ${page}`]),
      ]
      const lines = texts.flatMap((text) => wrapped(text, outputWidth() - indent.length))
      return `${styled(styles[level], level.padEnd(4))}  ${check.padEnd(width)}  ${lines.join(`\n${indent}`)}\n`
    })
    .join('')
}

/** 1 when a check failed, else 0. */
export function exitCodeOf(findings: readonly CheckFinding[]): number {
  return findings.some(({ level }) => level === 'fail') ? 1 : 0
}
