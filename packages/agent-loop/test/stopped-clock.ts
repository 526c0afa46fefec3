import { onTestFinished, vi } from 'vitest'

/** Stops the monotonic clock of this process; the returned function advances it by this many milliseconds. */
export function stoppedClock(): (ms: number) => void {
  let time = performance.now()
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => time)
  onTestFinished(() => clock.mockRestore())
  return (ms) => {
    time += ms
  }
}
