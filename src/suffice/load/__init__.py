"""Load on servers that speak the OpenAI API: schedules, requests, honest times, and a hostile server to test them against."""
