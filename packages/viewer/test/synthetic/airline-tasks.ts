import { between, pick, type Random } from './random.ts'

/** A row of the made-up dataset: what a customer of an airline wants. */
export interface AirlineTask {
  readonly row: number
  readonly kind: 'cancel' | 'change' | 'baggage' | 'upgrade' | 'refund'
  readonly person: string
  readonly user: string
  readonly code: string
  readonly from: string
  readonly to: string
  readonly day: number
  readonly price: number
  readonly bags: number
  readonly ask: string
  readonly label: string
  /** Chance that an agent of middling skill passes. */
  readonly ease: number
  /** Whether the grader can be satisfied by a phrase. */
  readonly exploitable: boolean
}

const people = [
  'Mia Li',
  'Sofia Kim',
  'Raj Patel',
  'Noah Müller',
  'Ana Souza',
  'Ivan Petrov',
  'Emma Rossi',
  'Yusuf Khan',
]
const airports = ['SFO', 'JFK', 'SEA', 'DEN', 'ORD', 'ATL', 'BOS', 'LAX', 'MIA', 'PHX']
const kinds = ['cancel', 'change', 'baggage', 'upgrade', 'refund'] as const
const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZ0123456789'.split('')

export function airlineTask(row: number, random: Random): AirlineTask {
  const person = pick(random, people)
  const kind = pick(random, kinds)
  const from = pick(random, airports)
  const landing = pick(random, airports)
  const trip = {
    person,
    from,
    to: landing === from ? 'DFW' : landing,
    code: Array.from({ length: 6 }, () => pick(random, letters)).join(''),
    day: between(random, 10, 28),
    price: between(random, 120, 900),
    bags: between(random, 1, 4),
    user: `${person.toLowerCase().replaceAll(/[^a-z]+/g, '_')}_${between(random, 1000, 9999)}`,
  }
  const ask = question(kind, trip)
  return { row, kind, ...trip, ask, ...chances(kind, random), label: labelOf(kind, trip.bags) }
}

type Trip = Pick<AirlineTask, 'from' | 'to' | 'code' | 'day' | 'bags' | 'user'>

function question(kind: AirlineTask['kind'], { from, to, code, day, bags, user }: Trip): string {
  switch (kind) {
    case 'cancel':
      return `Hi, I need to cancel my trip from ${from} to ${to} on May ${day}. Reservation ${code}, user id ${user}. Something came up and I can't travel.`
    case 'change':
      return `Hello! I'd like to move my ${from} → ${to} flight (reservation ${code}) to the day after, May ${day + 1}. I'm ${user}. I don't want to pay more than $80 extra.`
    case 'baggage':
      return `I want to add ${bags} checked bags to reservation ${code}. My user id is ${user}. How much will that be in total?`
    case 'upgrade':
      return `Can you upgrade every passenger on ${code} to business? I'm ${user}. Tell me the difference in price first.`
    case 'refund':
      return `My flight ${code} from ${from} was delayed by 4 hours. I want a refund to my original card, and a certificate. User id ${user}.`
  }
}

/** Many easy rows, many hopeless ones, and a middle that is worth training on. */
function chances(
  kind: AirlineTask['kind'],
  random: Random,
): Pick<AirlineTask, 'ease' | 'exploitable'> {
  const part = random()
  const ease = part < 0.24 ? 0.02 : part < 0.46 ? 0.97 : 0.12 + 0.8 * random()
  return { ease, exploitable: kind === 'refund' && random() < 0.25 }
}

function labelOf(kind: AirlineTask['kind'], bags: number): string {
  if (kind === 'cancel') return 'cancelled'
  return kind === 'baggage' ? `$${bags * 50}` : kind
}
