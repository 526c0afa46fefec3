/** A number without rounding: `above / below`. */
export interface ExactNumber {
  readonly above: bigint
  /** Greater than 0. */
  readonly below: bigint
  /** Whether a percent sign follows. */
  readonly isPercent?: boolean
}

type Maybe = ExactNumber | undefined

export const ten: ExactNumber = { above: 10n, below: 1n }

/** More digits than any double has. Larger powers would take long. */
const mostZeros = 400

/** The value of a decimal number such as 1234.5e-3; undefined beyond 400 zeros. */
export function exactDecimal(written: string): Maybe {
  const [amount = '', exponent = '0'] = written.split(/e/i)
  const [whole = '', part = ''] = amount.split('.')
  const value = { above: BigInt(whole + part), below: 10n ** BigInt(part.length) }
  return multiplied(value, raised(ten, exponent))
}

export function added(one: Maybe, other: Maybe): Maybe {
  if (one === undefined || other === undefined) return undefined
  const above = one.above * other.below + other.above * one.below
  return { above, below: one.below * other.below }
}

export function multiplied(one: Maybe, other: Maybe): Maybe {
  return one && other && { above: one.above * other.above, below: one.below * other.below }
}

export function negated(value: ExactNumber): ExactNumber {
  return { ...value, above: -value.above }
}

/** 1 / value; undefined for 0. */
export function inverse(value: Maybe): Maybe {
  if (value === undefined || value.above === 0n) return undefined
  const { above, below } = value
  return above < 0n ? { above: -below, below: -above } : { above: below, below: above }
}

/** A whole number to a power, whose minus may be a dash. */
export function raised(base: Maybe, power: string): Maybe {
  const exponent = Number(power.replaceAll(/[−–]/g, '-'))
  const isWhole = base?.below === 1n && base.above <= 1_000_000n
  if (!isWhole || Math.abs(exponent) > mostZeros) return undefined
  const value = { above: base.above ** BigInt(Math.abs(exponent)), below: 1n }
  return exponent < 0 ? inverse(value) : value
}
