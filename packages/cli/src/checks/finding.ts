import { outputWidth, styled, wrapped } from '../command/terminal-text.ts'

/** The result of a check. */
export interface CheckFinding {
  readonly level: 'ok' | 'warn' | 'fail'
  /** Name of the check, in a word or two. */
  readonly check: string
  readonly message: string
  /** How to fix it. */
  readonly advice?: string
}

/** A check that passed. */
export function ok(check: string, message: string): CheckFinding {
  return { level: 'ok', check, message }
}

/** Something that works, but may be unintended. */
export function warn(check: string, message: string, advice?: string): CheckFinding {
  return { level: 'warn', check, message, ...(advice === undefined ? {} : { advice }) }
}

/** Something that does not work. */
export function fail(check: string, message: string, advice?: string): CheckFinding {
  return { level: 'fail', check, message, ...(advice === undefined ? {} : { advice }) }
}

const styles = { ok: 'green', warn: 'yellow', fail: 'red' } as const

/** Human-readable findings, each with the advice below it. */
export function findingLines(findings: readonly CheckFinding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const indent = ' '.repeat(width + 8)
  return findings
    .map(({ level, check, message, advice }) => {
      const texts = [message, ...(advice === undefined ? [] : [`→ ${advice}`])]
      const lines = texts.flatMap((text) => wrapped(text, outputWidth() - indent.length))
      return `${styled(styles[level], level.padEnd(4))}  ${check.padEnd(width)}  ${lines.join(`\n${indent}`)}\n`
    })
    .join('')
}

/** 1 when a check failed, else 0. */
export function exitCodeOf(findings: readonly CheckFinding[]): number {
  return findings.some(({ level }) => level === 'fail') ? 1 : 0
}
