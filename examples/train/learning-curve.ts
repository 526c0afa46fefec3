// The rewards of a training as a chart that grows while it runs.
import { stdout } from 'node:process'

const width = 40
const eighths = ' ▏▎▍▌▋▊▉'

/** Prints a line for each iteration; on a terminal also the progress of the current one. */
export class LearningCurve {
  #shownAt = 0

  constructor() {
    stdout.write(`iteration  reward  ${' '.repeat(width)}  reads the note\n`)
  }

  /** Shows the progress; does nothing for a pipe or a file. */
  running(iteration: number, answers: number): void {
    const now = performance.now()
    if (!stdout.isTTY || now - this.#shownAt < 50) return
    this.#shownAt = now
    this.#replace(`${column(iteration)}       …  ${answers} answers of the policy`)
  }

  ended(iteration: number, reward: number, reading: number): void {
    const share = `${Math.round(reading * 100)} %`.padStart(14)
    this.#replace(`${column(iteration)}    ${reward.toFixed(2)}  ${bar(reward)}  ${share}\n`)
  }

  #replace(line: string): void {
    stdout.write(stdout.isTTY ? `\r\u001B[2K${line}` : line)
  }
}

function column(iteration: number): string {
  return String(iteration).padStart(9)
}

function bar(share: number): string {
  const full = Math.floor(share * width)
  const rest = eighths[Math.round((share * width - full) * 8)] ?? '█'
  return `${'█'.repeat(full)}${share < 1 ? rest : ''}`.padEnd(width)
}
