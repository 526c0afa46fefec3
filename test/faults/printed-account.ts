import type { Account } from './account.ts'

/** Prints the outcomes, the injected faults and the violations. */
export function printAccount(account: Account): void {
  const { faults, violations } = account
  const ends = new Map<string, number>()
  for (const { plan, end = 'NO END' } of account.ends()) {
    const name = `${plan.kind.padEnd(9)} ${end}`
    ends.set(name, (ends.get(name) ?? 0) + 1)
  }
  console.log('\noutcomes')
  printCounts(ends)
  console.log('\ninjected faults')
  printCounts(faults)
  console.log('')
  for (const violation of violations.slice(0, 50)) console.log(`WRONG ${violation}`)
}

function printCounts(counts: ReadonlyMap<string, number>): void {
  for (const [name, count] of [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    console.log(`${String(count).padStart(7)}  ${name}`)
  }
}
