import { styled } from '../eval-show/terminal-text.ts'

/** What a check came to. */
export interface CheckFinding {
  readonly level: 'ok' | 'warn' | 'fail'
  /** What was checked, in a word or two. */
  readonly check: string
  readonly message: string
  /** What to do about it. */
  readonly advice?: string
}

/** A check that came out well. */
export function ok(check: string, message: string): CheckFinding {
  return { level: 'ok', check, message }
}

/** Something that works, and may not be what is wanted. */
export function warn(check: string, message: string, advice?: string): CheckFinding {
  return { level: 'warn', check, message, ...(advice === undefined ? {} : { advice }) }
}

/** Something that does not work. */
export function fail(check: string, message: string, advice?: string): CheckFinding {
  return { level: 'fail', check, message, ...(advice === undefined ? {} : { advice }) }
}

const styles = { ok: 'green', warn: 'yellow', fail: 'red' } as const

/** Findings for people, a line each, with what to do below. */
export function findingLines(findings: readonly CheckFinding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  return findings
    .map(({ level, check, message, advice }) => {
      const indent = `\n${' '.repeat(width + 8)}`
      const text = [message, ...(advice === undefined ? [] : [`→ ${advice}`])].join('\n')
      return `${styled(styles[level], level.padEnd(4))}  ${check.padEnd(width)}  ${text.replaceAll('\n', indent)}\n`
    })
    .join('')
}

/** 1 when something does not work, else 0. */
export function exitCodeOf(findings: readonly CheckFinding[]): number {
  return findings.some(({ level }) => level === 'fail') ? 1 : 0
}
